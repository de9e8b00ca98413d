"""The semilocal energy of a functional that takes the exact-exchange energy density as well: a local hybrid."""

import numpy as np

from dftfd.terms.on_grid import gradient_on_grid
from dftfd.terms.semilocal import SemilocalEnergy
from dftfd.xc.channels import without_exact_exchange
from dftfd.xc.code import shared
from dftfd.xc.kernel import XCKernel
from dftfd.xc.local_exchange import LocalExchangeBuilder, LocalExchangeGradientBuilder, LocalExchangeResponse
from dftfd.xc.transitions import TripletKernel


class LocalHybridEnergy(SemilocalEnergy):
    """E_xc[rho, tau, e_x] on a grid."""

    def traced(self, molecule, in_memory):
        without_exact_exchange(self.functional, self.functional.ingredients, "whose integrals JAX does not have")

    def _densities_on(self, store):
        return LocalExchangeBuilder(self.kernel, store, molecule=self._molecule)

    def made_on(self, store):
        return LocalExchangeBuilder(self.kernel, store, self._molecule, self._progress.part)

    def response(self, P, C, triplet=False):
        kernel = TripletKernel(shared(XCKernel, self.functional, 2)) if triplet else self.kernel
        change = LocalExchangeResponse(self.kernel, kernel, self.builder.store, self._molecule, np.asarray(P))

        def respond(dC, imaginary=0.0):
            half = [np.einsum("tqm,qn->tmn", dC_s, C_s) for dC_s, C_s in zip(dC, C, strict=True)]
            halves = np.stack(half, axis=1)  # (trial, spin, ao, ao)
            dF = np.zeros(halves.shape)
            if imaginary != 1.0:
                dF += (1.0 - imaginary) * change(halves + halves.transpose(0, 1, 3, 2))
            if imaginary != 0.0:
                dF += imaginary * change(halves - halves.transpose(0, 1, 3, 2), antisymmetric=True)
            return [np.einsum("tmn,qn->tqm", dF[:, s], C_s) for s, C_s in enumerate(C)]

        return respond

    def gradient(self, P, C_occ, grid_response, progress):
        made = lambda kernel, store, part: LocalExchangeGradientBuilder(kernel, store, self._molecule, part)
        return gradient_on_grid(self._molecule, self.kernel, self.grid, P, C_occ, grid_response, progress, made)
