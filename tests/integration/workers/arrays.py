# SPDX-License-Identifier: Apache-2.0
"""hvdray.arrays on two ranks: NumPy's arrays through the operations that hvdray.torch has, without torch."""

import sys

import horovod  # noqa: F401 -- by which there is a package hvdray, too
import numpy

from hvdray import arrays


def raised(kind, call):
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError("nothing was raised")


class Elsewhere:
    """An array on a GPU, so it says."""

    def __dlpack__(self, **_):
        self.capsule = numpy.zeros(3).__dlpack__()
        pointer = arrays._pointer_of(self.capsule, b"dltensor")
        arrays.ctypes.c_int32.from_address(pointer + 8).value = 2
        return self.capsule


class Constant:
    """As an array of JAX, whose capsule does not say that it can't be changed."""

    __module__ = "jaxlib._jax"

    def __dlpack__(self, **_):
        return numpy.zeros(3).__dlpack__()


assert "use hvdray.arrays.init()" in raised(ValueError, arrays.rank)
arrays.init()
rank, size = arrays.rank(), arrays.size()
for dtype in ("int8", "int16", "int32", "int64", "uint8", "float16", "float32", "float64"):
    for shape in ((), (5,), (3, 4), (0, 2), (70000,)):
        array = numpy.full(shape, rank + 1, dtype)
        assert arrays.allreduce(array, "sum") is array and (array == size * (size + 1) // 2).all(), (dtype, shape)
        array[...] = rank
        assert (arrays.broadcast(array, 1) == 1).all()
assert arrays.allreduce(numpy.array([rank * 4.0])) == [2.0 * (size - 1)]
assert arrays.allreduce(numpy.array([rank, 5]), "max", name="largest").tolist() == [size - 1, 5]
whole = arrays.allgather(numpy.full((rank + 1, 2), rank, "float32"))
assert whole.dtype == "float32" and whole[:, 1].tolist() == sum(([one] * (one + 1) for one in range(size)), [])
arrays.barrier()

wide = numpy.zeros((4, 6))
assert arrays.allreduce(wide[1:3], "sum") is not None  # rows of another array
assert "contiguous" in raised(ValueError, lambda: arrays.allreduce(wide[:, 1:3]))
assert "contiguous" in raised(ValueError, lambda: arrays.allreduce(wide.T))
fixed = numpy.ones(3)
fixed.flags.writeable = False
assert "readonly" in raised(ValueError, lambda: arrays.broadcast(fixed)).replace("-", "")
assert "read-only" in raised(ValueError, lambda: arrays.allreduce(Constant()))
assert "not supported" in raised(ValueError, lambda: arrays.allreduce(numpy.ones(3, "uint16")))
assert "not supported" in raised(ValueError, lambda: arrays.allreduce(numpy.ones(3, "complex64")))
assert "by DLPack" in raised(ValueError, lambda: arrays.allreduce(numpy.array(["a"])))
assert "not list" in raised(TypeError, lambda: arrays.allreduce([1.0]))
assert "device 2" in raised(ValueError, lambda: arrays.allreduce(Elsewhere()))
assert "'mean' is none of" in raised(ValueError, lambda: arrays.allreduce(numpy.ones(3), "mean"))
assert "Mismatched shapes" in raised(arrays.MismatchError, lambda: arrays.allreduce(numpy.ones(3 + rank)))
assert "torch" not in sys.modules
arrays.shutdown()
assert "not initialized" in raised(ValueError, arrays.rank)
print("all facts hold", flush=True)
