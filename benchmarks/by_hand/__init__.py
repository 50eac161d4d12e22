"""The workloads written for JAX by hand. Nothing here imports torch, because workers do not."""
