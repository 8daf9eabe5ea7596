# Which library of Sectile the package opens.
import os


def library():
    """What SECTILE_LIBRARY names, else the one that came with the package."""
    named = os.environ.get("SECTILE_LIBRARY")
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", "libsectile.so")
    if not named and not os.path.exists(own):
        raise ImportError(f"there is no library of Sectile: {own} is missing, and SECTILE_LIBRARY names no other")
    return named or own
