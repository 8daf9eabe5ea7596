# Triton kernels of our own, plain ones with a few choices of tiles each, for kernels that people write in it.
from . import attention, blocks, collection, elements, positions, products, rows, sequences, serving, sticks  # noqa: F401
