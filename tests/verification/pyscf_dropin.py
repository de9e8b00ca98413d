"""A plug-in for pytest: PySCF's numerical integration takes every functional by name from dftfd.

    python -m pytest -p tests.verification.pyscf_dropin -c /dev/null FILE_OF_PYSCF

`dftfd.interop.pyscf.numint(name)` is an object for one functional. PySCF's tests make theirs without a name and pass
the name with each call, so here such an object is made for each name; an empty name, which PySCF takes for no
functional at all, is left to PySCF. Who asks the module `pyscf.dft.libxc` itself gets the same answers.
"""

import functools

from pyscf.dft import libxc, numint

from dftfd.interop.numint import Library, NumInt
from dftfd.interop.pyscf import numint as of_functional

_NONLOCAL = ("is_nlc", "nlc_coeff")
_QUESTIONS = (
    "eval_xc", "eval_xc1", "hybrid_coeff", "rsh_coeff", "nlc_coeff", "is_hybrid_xc", "is_meta_gga", "is_gga", "is_lda",
    "is_nlc", "xc_type", "needs_laplacian",
)  # fmt: skip
_PYSCFS = {question: getattr(libxc, question) for question in _QUESTIONS}


@functools.cache
def library(xc_code: str, omega: float | None = None) -> Library:
    found = of_functional(xc_code).libxc
    return found if omega is None else found.with_omega(omega)


class ByName:
    """What PySCF asks its module `pyscf.dft.libxc`, each question answered for the name that comes with it."""

    __name__ = "dftfd"

    def __init__(self, omega=None):
        self._omega = omega

    def with_omega(self, omega):
        return ByName(omega)

    def __getattr__(self, question):
        if question not in _QUESTIONS:
            return getattr(libxc, question)

        def answer(xc_code=None, *args, **options):
            if not xc_code or not isinstance(xc_code, str):
                return _PYSCFS[question](xc_code, *args, **options)
            part = question in _NONLOCAL and xc_code.lower() == "vv10"  # mf.nlc = "vv10" beside a functional
            found = library("lda,vwn") if part else library(xc_code, self._omega)
            return getattr(found, question)(xc_code, *args, **options)

        return answer


class _WithOmega:
    """Another library of PySCF, asked with an omega."""

    def __init__(self, library, omega):
        self._library, self._omega = library, omega

    def __getattr__(self, question):
        answer = getattr(self._library, question)
        if not question.startswith("eval_xc"):
            return answer
        return lambda *args, **options: answer(*args, **{"omega": self._omega} | options)


class NumIntByName(NumInt):
    """PySCF's NumInt with dftfd's functionals."""

    def __init__(self):
        numint.LibXCMixin.__init__(self)
        self.libxc = ByName()

    def _library(self, omega=None):
        if isinstance(self.libxc, ByName):
            return super()._library(omega)
        return _WithOmega(self.libxc, self.omega if omega is None else omega)  # a test that puts another library there

    def __reduce__(self):
        return type(self), (), {k: v for k, v in self.__dict__.items() if k != "libxc"}

    def __copy__(self):
        other = type(self)()
        other.__dict__.update(self.__dict__)
        return other


numint.NumInt = numint._NumInt = NumIntByName
for _question in _QUESTIONS:
    setattr(libxc, _question, getattr(ByName(), _question))
