# Triton kernels of our own, plain ones with a few choices of tiles each, for kernels that people write in it; for the
# recurrent ones those of fla-core.
from . import attention, blocks, collection, elements, positions, products, recurrent, rows, sequences, serving, sticks  # noqa: F401
