"""Random ATen programs, compiled and compared with eager, for minutes or for hours.

    python -m test.fuzz --minutes 60 --seed 0

    program.py    what a program is, as frozen values
    operators.py  what it may do: a table of calls
    generate.py   a program for a seed
    spell.py      a program as Python that stands alone
    observe.py    what a run of it shows: results, inputs, memory, gradients, errors
    noise.py      how far floats may be apart, by experiment
    compare.py    the differences between two runs
    judge.py      the verdict on one program: ours, torch's own, or none
    worker.py     judges in a process of its own, which may crash or hang
    shrink.py     the smallest program that still fails alike
    __main__.py   the command line

Eager is the oracle. What eager leaves open is not generated: memory that nobody wrote, floats
converted to integers beyond their range, order among equal elements that are sorted unstably,
division of integers by zero. What torch.compile changes by itself, whatever the backend, is found
by running `aot_eager` on every program that fails.
"""
