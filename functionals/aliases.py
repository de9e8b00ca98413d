"""Conventional names that are neither libxc's nor registered, and other programs' names: what they stand for.

`COMBINATIONS` is PySCF 2.14's table (pyscf/dft/libxc.py, Apache-2.0), without the names that this library registers
itself or refuses, and with combinations that dispersion corrections were fitted to. Other programs' names are from the
manuals of Gaussian 16, ORCA 6, Q-Chem 6 and Psi4.
"""

import re
import unicodedata

from dftfd.errors import FunctionalError

COMBINATIONS = {
    "pbe1pbe": "pbe0",
    "b3lypg": "b3lyp",
    "mpw3lypg": "hyb_gga_xc_mpw3lyp",
    "mpw3pwg": "hyb_gga_xc_mpw3pw",
    "revb3lypg": "hyb_gga_xc_revb3lyp",
    "x3lypg": "hyb_gga_xc_x3lyp",
    "b1b95": "hyb_mgga_xc_b88b95",
    "bpw91": "b88,pw91",
    "revpbe38": ".375*hf + .625*pbe_r, pbe",
    "rpw86pbe": "rpw86,pbe",
    "r2scanh": ".1*hf + .9*r2scan, r2scan",
    "r2scan50": ".5*hf + .5*r2scan, r2scan",
    "b3p86v5": ".2*hf + .08*slater + .72*b88, .81*p86 + .19*vwn",
    "b5050lyp": ".5*hf + .08*slater + .42*b88, .81*lyp + .19*vwn",
    "bloc": "bloc,tpssloc",
    "bop": "b88,op_b88",
    "camyb3lyp": "hyb_gga_xc_camy_b3lyp",
    "camyblyp": "hyb_gga_xc_camy_blyp",
    "dldf": "dldf,dldf",
    "gam": "gam,gam",
    "hflyp": "hf,lyp",
    "hfpw92": "hf,pw_mod",
    "hsesol": "hyb_gga_xc_hse_sol + gga_c_pbe_sol - gga_c_pbe",  # libxc's has PBE's correlation
    "kt1": "gga_x_kt1,vwn",
    "m05": "hyb_mgga_x_m05,mgga_c_m05",
    "m05_2x": "hyb_mgga_x_m05_2x,mgga_c_m05_2x",
    "m06": "hyb_mgga_x_m06,mgga_c_m06",
    "m06_hf": "hyb_mgga_x_m06_hf,mgga_c_m06_hf",
    "m06_sx": "m06_sx,m06_sx",
    "m11_l": "m11_l,m11_l",
    "mbeef": "mbeef,pbe_sol",
    "mn12_l": "mn12_l,mn12_l",
    "mn12_sx": "mn12_sx,mn12_sx",
    "mn15": "mn15,mn15",
    "mpw91": "mpw91,pw91",
    "mpw1lyp": ".25*hf + .75*mpw91, lyp",
    "mpw1pbe": ".25*hf + .75*mpw91, pbe",
    "mpw3lyp": ".218*hf + .073*slater + .709*mpw91, .871*lyp + .129*vwn",
    "mpw3pw": ".2*hf + .08*slater + .72*mpw91, .81*pw91 + .19*vwn",
    "mpw3lyp5": ".218*hf + .073*slater + .709*mpw91, .871*lyp + .129*vwn",
    "mpw3pw5": ".2*hf + .08*slater + .72*mpw91, .81*pw91 + .19*vwn",
    "ms0": "ms0,regtpss",
    "ms1": "ms1,regtpss",
    "ms2": "ms2,regtpss",
    "ms2h": "ms2h,regtpss",
    "mvs": "mvs,regtpss",
    "mvsh": "mvsh,regtpss",
    "n12": "n12,n12",
    "n12_sx": "n12_sx,n12_sx",
    "optxcorr": "0.7344536875999693*slater - 0.6984752285760186*optx,",
    "pbe50": ".5*hf + .5*pbe, pbe",
    "pbeop": "pbe,op_pbe",
    "pkzb": "pkzb,pkzb",
    "revb3lyp": ".2*hf + .13*slater + .67*b88, .84*lyp + .16*vwn",
    "revb3lyp5": ".2*hf + .13*slater + .67*b88, .84*lyp + .16*vwn",
    "revpbe0": ".25*hf + .75*pbe_r, pbe",
    "revscan": "mgga_x_revscan,mgga_c_revscan",
    "revscan_vv10": "mgga_x_revscan,mgga_c_revscan_vv10",
    "scan_rvv10": "mgga_x_scan,mgga_c_scan_rvv10",
    "scan_vv10": "mgga_x_scan,mgga_c_scan_vv10",
    "sogga": "sogga,pbe",
    "sogga11": "sogga11,sogga11",
    "sogga11_x": "sogga11_x,sogga11_x",
    "tpss0": ".25*hf + .75*tpss, tpss",
    "x3lyp5": ".218*hf + .073*slater + .542385*b88 + .166615*pw91, .871*lyp + .129*vwn",
}

OTHER_PROGRAMS = {
    "b3lyp/g": "b3lyp",
    "bh&hlyp": "bhandhlyp",
    "bhhlyp": "bhandhlyp",
    "bhlyp": "bhandhlyp",
    "bp": "bp86",
    "b1pw": "b1pw91",
    "b3pw": "b3pw91",
    "bpw": "b88,pw91",
    "bvwn5": "b88,vwn",
    "glyp": "g96,lyp",
    "hcth/93": "hcth93",
    "hcth/120": "hcth120",
    "hcth/147": "hcth147",
    "hcth/407": "hcth407",
    **dict.fromkeys(("hcth407+", "hcth/407+", "hcth/407p"), "hcth407p"),
    "hcth/p14": "hcth_p14",
    "hcth/p76": "hcth_p76",
    "hfs": "lda_x",
    "hseh1pbe": "hse06",
    "lrcwpbeh": "lrc_wpbeh",
    "mpwlyp": "mpw91,lyp",
    "mpwpw": "mpw91,pw91",
    "mpwpw91": "mpw91,pw91",
    "mpw1pw91": "mpw1pw",
    "pbeh": "pbe0",
    "pbe01/3": "pbe0_13",
    "pbepbe": "pbe",
    "pbesolpbesol": "pbesol",
    "pw91pw91": "pw91",
    "pw86pbe": "pw86,pbe",
    "pwlda": "spw92",
    "revtpssrevtpss": "revtpss",
    "scanfunc": "scan",
    "svwn3": "lda,vwn_rpa",
    "svwn5": "lda,vwn",
    "spz81": "lda,pz",
    "tpsstpss": "tpss",
}
"""Other programs' names, without hyphens, underscores and spaces, of functionals that are called otherwise here."""

SEVERAL_MEANINGS = {
    "lsda": "Gaussian's is 'lda,vwn_rpa' (VWN III), Q-Chem's and ORCA's LSD 'lda,vwn' (VWN V)",
    "lsd": "Gaussian's LSDA is 'lda,vwn_rpa' (VWN III), ORCA's LSD 'lda,vwn' (VWN V)",
    "bvwn": "Gaussian's is 'b88,vwn_rpa' (VWN III), Turbomole's and ORCA's 'b88,vwn' (VWN V)",
    "b3lyp3": "Molpro's is 'b3lyp' (VWN III), libxc's 'hyb_gga_xc_b3lyp3' mixes VWN III and V",
    **dict.fromkeys(
        ("b3p86", "b3p86g"),
        "Gaussian's and NWChem's is 'hyb_gga_xc_b3p86_nwchem' (all of VWN III), libxc's, PySCF's and Psi4's "
        "'hyb_gga_xc_b3p86' (0.19 of VWN III, 0.81 of Perdew and Zunger's)",
    ),
    "b98": (
        "Gaussian's, NWChem's and that of D3 is 'hyb_gga_xc_sb98_2c' (fit 2c of Schmider and Becke), libxc's "
        "'hyb_mgga_xc_b98' Becke's with the Laplacian"
    ),
    "b3lyp*": "'hyb_gga_xc_b3lyps' is it with VWN III, '.15*hf + .13*slater + .72*b88, .81*lyp + .19*vwn' with VWN V",
    "x1b95": "its paper's is not here; libxc's 'hyb_mgga_xc_x1b95' has 57 % of exchange, exact one included",
    "xb1k": "its paper's is not here; libxc's 'hyb_mgga_xc_xb1k' has 82 % of exchange, exact one included",
    "whpbe0": "its paper's is not here; libxc's 'hyb_gga_xc_whpbe0' has 50 % of exchange, exact one included",
    "lda0": "with all of LDA's correlation it is '.25*hf + .75*lda, pw_mod'; libxc's 'hyb_lda_xc_lda0' has 75 % of it",
    "zlp": "libxc has 'lda_xc_zlp' of 1993 and 'mgga_xc_zlp', PySCF's and Psi4's",
    "rtpss": "VASP's is 'revtpss', libxc's 'mgga_x_rtpss' is exchange alone",
    "rcamb3lyp": (
        "CAM-B3LYP in restricted calculations of Gaussian, 'camb3lyp' here, and in libxc a functional of 2007, "
        "'hyb_gga_xc_rcam_b3lyp' (doi:10.1063/1.2741248)"
    ),
    "hcth": "write 'hcth407' (Gaussian's), 'hcth93', 'hcth120' or 'hcth147'",
    **dict.fromkeys(
        ("revdsdpbep86/2021", "revdsdpbep86d4/2021"),
        "ORCA's is a refit of 2021, which is not here; 'revdsd-pbep86-d4' has the parameters of 2019",
    ),
}
"""Names that mean different functionals in different programs and none here, and what to write."""


OF_TURBOMOLE = {
    "b-p": "B88 and P86 with VWN V, 'b88,p86 - pz + vwn'; libxc's with Perdew and Zunger's is 'bp86'",
    "b3-lyp": "B3LYP with VWN V, 'b3lyp5'; with VWN III, as in Gaussian, PySCF and Psi4, it is 'b3lyp'",
    "b3-lyp_gaussian": "B3LYP with VWN III, 'b3lyp'",
}
"""Names that mean another functional than those without the hyphen."""


def in_ascii(text: str) -> str:
    """A name in lower-case ASCII: dashes and Greek letters of any code table as papers and web pages have them."""
    text = unicodedata.normalize("NFKC", text).translate({ord("\N{MINUS SIGN}"): "-"})
    text = "".join("-" if unicodedata.category(letter) == "Pd" else letter for letter in text).lower()
    text = text.replace("\N{GREEK SMALL LETTER OMEGA}", "w").replace("\N{GREEK SMALL LETTER TAU}", "tau")
    return re.sub(r"\bomega(?=_?-?(?:b97|pbe))", "w", text)


def refuse_ambiguous(name: str) -> None:
    """FunctionalError for a name that programs do not agree about."""
    if name in OF_TURBOMOLE:
        raise FunctionalError(f"{name!r} is how Turbomole writes {OF_TURBOMOLE[name]}.")
    if meanings := SEVERAL_MEANINGS.get(_without_marks(name)):
        raise FunctionalError(f"{name!r} means different functionals in different programs: {meanings}.")


def _without_marks(name):
    return re.sub(r"[-_]", "", name)


def from_other_programs(text: str) -> str:
    """The text, or what another program's name is called here.

    text: of `in_ascii`. FunctionalError for a name that programs do not agree about, and for a basis set after a slash.
    """
    refuse_ambiguous(text)
    plain = _without_marks(text)
    if plain in OTHER_PROGRAMS:
        return OTHER_PROGRAMS[plain]
    prefix = re.match(r"(ri|dlpno)-(?=\w)", text)
    if prefix:
        raise FunctionalError(
            f"{text!r} says how integrals are made, which is an option of its own (density_fit); the functional is "
            f"{text[prefix.end() :]!r}."
        )
    functional, slash, basis = text.partition("/")
    if slash and re.match(r"\s*[a-z0-9]", basis) and re.search(r"[a-z]", functional + basis):
        raise FunctionalError(
            f"{text!r} names a basis set too, which is an option of its own: functional {functional.strip()!r}, basis "
            f"{basis.strip()!r}."
        )
    return text
