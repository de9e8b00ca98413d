"""What dftfd asks of JAX before anything is computed: float64, a platform that starts, compiled programs that are kept.

`import dftfd` asks for it. The command `dftfd` does so when a command is to run, since JAX takes a second to load and
help needs none of it.
"""

import os
from functools import cache

import jax

from dftfd.errors import InputError
from dftfd.runtime.compilation_cache import enable_compilation_cache

_FALSE = {"0", "false", "off", "no", "f", "n"}


@cache
def prepare_jax() -> None:
    """Once per process; raises InputError for environment variables that JAX or dftfd cannot work with."""
    if os.environ.get("JAX_ENABLE_X64", "").lower() in _FALSE:
        raise InputError(
            f"JAX_ENABLE_X64={os.environ['JAX_ENABLE_X64']!r} asks for 32-bit arithmetic, but dftfd computes in "
            "float64. Unset the variable."
        )
    jax.config.update("jax_enable_x64", True)
    _require_platforms()
    _compute_on_the_processor()
    enable_compilation_cache()


def _compute_on_the_processor():
    """Arrays and programs go to the processor unless they are put elsewhere, as xc.device does.

    Most of dftfd's are small: on an accelerator they would wait for each other. A default device that was chosen before
    stays, and JAX_PLATFORMS without cpu is such a choice.
    """
    platforms = jax.config.jax_platforms  # type: ignore[attr-defined]
    chosen = jax.config.jax_default_device  # type: ignore[attr-defined]
    if chosen is None and (not platforms or "cpu" in platforms.split(",")):
        jax.config.update("jax_default_device", "cpu")


def _require_platforms():
    """Raise unless JAX starts on the platforms that it was told to use; the processor, "cpu", always is there."""
    chosen = jax.config.jax_platforms  # type: ignore[attr-defined]  # JAX does not declare its flags
    if not chosen or chosen == "cpu":
        return
    try:
        jax.devices()
    except (RuntimeError, AssertionError) as error:  # the latter, without words, where the platform has no device
        reason = str(error).partition(" (set")[0].rstrip(".") or "no device of this platform"
        raise InputError(
            f"JAX does not start: {reason}. Look at JAX_PLATFORMS, here {chosen!r}: unset it, or name what this "
            "machine has, such as cpu."
        ) from error
