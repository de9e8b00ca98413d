"""A functional as libxc has its own: work function, info structure, registration.

The file builds inside libxc's tree, where libxc's scripts register it like any other, and outside, as a library to be
loaded before libxc: it answers for its own number and names, and hands all others on. Either way libxc's own functions
evaluate the functional, as they find all that they need in the info structure. That of libxc 7 and that of libxc 5,
which Debian and Psi4 have, differ in how results and parameters are handed over.
"""

import hashlib

from dftfd.errors import UnsupportedError
from dftfd.translate.c_files import Exported, comment, filled, provenance
from dftfd.translate.c_text import substituted
from dftfd.translate.on_c import number_text
from dftfd.xc.channels import MEMBERS, named_components

FAMILIES = {"lda": ("rho",), "gga": ("rho", "sigma"), "mgga": ("rho", "sigma", "lapl", "tau")}
KINDS = {"x": "XC_EXCHANGE", "c": "XC_CORRELATION", "k": "XC_KINETIC"}
_FIRST_NUMBER, _COUNT = 100_000, 900_000
"""libxc's own numbers have three digits."""


def number_of(exported: Exported) -> int:
    """The number under which clients of libxc find the functional, from its name."""
    return _FIRST_NUMBER + int(hashlib.sha256(exported.name.encode()).hexdigest(), 16) % _COUNT


def libxc_source(exported: Exported) -> str:
    """The text of the file."""
    name, family = exported.name, family_in_libxc(exported)
    given = [s for k in range(1, exported.order + 1) for s in named_components(1, FAMILIES[family], k)]
    beyond = [s for k in range(exported.order + 1, 5) for s in named_components(1, FAMILIES[family], k)]
    values = {
        "NAME": name,
        "NAME_IN_TREE": name_in_tree(exported),
        "NAME_IN_CAPITALS": name_in_tree(exported).upper(),
        "FAMILY_IN_CAPITALS": family.upper(),
        "FAMILY": family,
        "NUMBER": number_of(exported),
        "INFO_FAMILY": f"XC_FAMILY_{'HYB_' if exported.functional.exact_exchange else ''}{family.upper()}",
        "TABLE": ", ".join("FUNCTIONS" if f == family else "NULL" for f in FAMILIES),
        "KIND": _kind(exported),
        "FLAGS": " | ".join(_flags(exported)),
        "DIMENSIONS": _dimensions(family),
        "MIXED": _mixed(exported),
        "ARGUMENTS": ", ".join(f"const double *{f}" for f in FAMILIES[family]),
        "GIVEN": ", ".join(f if f in FAMILIES[family] else "NULL" for f in FAMILIES["mgga"]),
        "FUNCTIONS": ", ".join("work" if k <= exported.order else "NULL" for k in range(5)),
        "RESULTS": "".join(f"    results.{s} = RESULT({s});\n" for s in ("zk", *given) if s in exported.slots),
        "UNUSED": filled(" ".join(f"(void){s};" for s in [*beyond, *(s for s in given if s not in exported.slots)])),
        **_parameters(exported),
    }
    return comment(provenance(exported)) + substituted(_TEXT, values)


def family_in_libxc(exported: Exported) -> str:
    """lda, gga or mgga."""
    return next(family for family, members in FAMILIES.items() if set(exported.families) <= set(members))


def name_in_tree(exported: Exported) -> str:
    """The name inside libxc's tree, from which libxc's scripts read family and kind: gga_x_dftfd_gga_x_pbe."""
    hybrid = "hyb_" if exported.functional.exact_exchange else ""
    kind = next((letter for letter, kind in KINDS.items() if kind == _kind(exported)), "xc")
    return f"{hybrid}{family_in_libxc(exported)}_{kind}_dftfd_{exported.name.lower()}"


def _kind(exported):
    letters = {part for _, t in exported.functional.terms for part in t.name.split("_")[1:2]}
    return KINDS.get(letters.pop(), "XC_EXCHANGE_CORRELATION") if len(letters) == 1 else "XC_EXCHANGE_CORRELATION"


def _flags(exported):
    flags = ["XC_FLAGS_3D"]
    flags += [f"XC_FLAGS_HAVE_{'EVFKL'[k]}XC" for k in range(exported.order + 1)]
    flags += ["XC_FLAGS_NEEDS_LAPLACIAN"] * ("lapl" in exported.families)
    flags += ["XC_FLAGS_NEEDS_TAU"] * ("tau" in exported.families)
    flags += ["XC_FLAGS_HYB_CAM"] * any(omega for omega, _ in exported.functional.exact_exchange)
    return flags + ["XC_FLAGS_VV10"] * exported.functional.is_nonlocal


def _dimensions(family):
    """Numbers of components in each array."""
    variables = FAMILIES[family]
    counts = {n: {f: len(MEMBERS[n][f]) for f in variables} | {"zk": 1} for n in (1, 2)}
    for n, of_spin in counts.items():
        of_spin |= {s: len(c) for k in range(1, 5) for s, c in named_components(n, variables, k).items()}
    rows = [f"p->dim.{field} = nspin == 1 ? 1 : {count};" for field, count in counts[2].items()]
    return "".join(f"    {row}\n" for row in rows)


def _mixed(exported):
    """Exact exchange, and the parameters of VV10, which clients compute themselves.

    libxc's alpha is the fraction at long range, alpha + beta that at short range.
    """
    functional, lines = exported.functional, []
    pairs = functional.exact_exchange
    if len([omega for omega, _ in pairs if omega]) > 1:
        raise UnsupportedError(f"functional {functional.name!r} has several omegas; libxc supports one.")
    if pairs:
        lines.append(f"p->cam_alpha = {number_text(sum(fraction for _, fraction in pairs))};")
    for omega, fraction in pairs:
        if omega:
            lines += [f"p->cam_beta = {number_text(-fraction)};", f"p->cam_omega = {_omega(exported, omega)};"]
    for coefficient, term in functional.nonlocal_part.terms:
        if coefficient != 1 or term.name != "vv10":
            raise UnsupportedError(f"libxc does not support the double integral {term.name!r} of {functional.name!r}.")
        lines += [
            f"p->nlc_b = {number_text(term.parameters['b'])};",
            f"p->nlc_C = {number_text(term.parameters['C'])};",
        ]
    return "".join(f"    {line}\n" for line in lines)


def _omega(exported, omega):
    """The parameter of this name and value, so that exact exchange follows it."""
    place = 0
    for p in exported.parameters:
        if p.key == "omega" and p.values == (float(omega),):
            return f"STORED(p)[{place}]"
        place += len(p.values)
    return number_text(omega)


def _parameters(exported):
    names = [f"{p.name}_{k}" if p.is_list else p.name for p in exported.parameters for k in range(len(p.values))]
    values = [number_text(v) for p in exported.parameters for v in p.values]
    if not names:
        return {"N_PARAMETERS": 0, "TABLES": "", "EXTERNAL": "{0, NULL, NULL, NULL, NULL}", "COPY": ""}
    quoted = filled(", ".join(f'"{n}"' for n in names))
    return {
        "N_PARAMETERS": len(names),
        "TABLES": f"static const char *names[] = {{\n{quoted}}};\nstatic const double values[] = {{\n"
        f"{filled(', '.join(values))}}};\n",
        "EXTERNAL": f"{{{len(names)}, names, names, values, set_parameters}}",
        "COPY": "    memcpy(&parameters, STORED(p), sizeof parameters);\n",
    }


_TEXT = """
/* Inside libxc's tree: a file @NAME_IN_TREE@.c in libxc's src, compiled with -DINSIDE_LIBXC beside
   @NAME@.c and its kernels, under other names where libxc has files of these; scripts/get_functional_info.py
   registers it. Elsewhere: a shared library that is loaded before libxc (LD_PRELOAD) and answers for dftfd_@NAME@,
   number @NUMBER@, in xc_func_init and the functions that look up names. */

#ifdef INSIDE_LIBXC
#include "util.h"
#define XC_@NAME_IN_CAPITALS@ @NUMBER@ /* exported by dftfd */
#else
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <stdio.h>
#include <xc.h>
#endif
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <xc_version.h>
#include "@NAME@.h"

#if XC_MAJOR_VERSION == 5
#define RESULTS double *zk @FAMILY_IN_CAPITALS@_OUT_PARAMS_NO_EXC(XC_COMMA double *, )
#define RESULT(name) name
#define STORED(p) ((double *)(p)->params)
#define STORE(p, place) ((p)->params = (place))
#define FUNCTIONS work
#elif XC_MAJOR_VERSION >= 7
#define RESULTS xc_@FAMILY@_out_params *out
#define RESULT(name) out->name
#define STORED(p) ((p)->ext_params)
#define STORE(p, place) ((p)->ext_params = (place))
#define FUNCTIONS &functions
#else
#error "the info structure of libxc 5, or of libxc 7 or newer, is needed"
#endif
#ifndef XC_FLAGS_NEEDS_TAU
#define XC_FLAGS_NEEDS_TAU 0
#endif

@TABLES@
static void mix(xc_func_type *p)
{
    (void)p;
@MIXED@}

static void set_parameters(xc_func_type *p, const double *given)
{
    for (int k = 0; k < p->info->ext_params.n; ++k) {
        const int as_default = given == NULL || given[k] == XC_EXT_PARAMS_DEFAULT;
        STORED(p)[k] = as_default ? p->info->ext_params.values[k] : given[k];
    }
    mix(p);
}

static void start(xc_func_type *p)
{
#if defined(INSIDE_LIBXC) && XC_MAJOR_VERSION == 5
    p->params = malloc(sizeof(double)*(size_t)(p->info->ext_params.n + 1));
#endif
    if (p->info->ext_params.n == 0) mix(p);
}

static void work(const xc_func_type *p, size_t np, @ARGUMENTS@, RESULTS)
{
    @NAME@_parameters parameters = @NAME@_defaults;
    @NAME@_results results;
    memset(&results, 0, sizeof results);
#if XC_MAJOR_VERSION == 5
@UNUSED@#endif
@RESULTS@@COPY@    @NAME@_evaluate(p->nspin, np, @GIVEN@, &parameters, &results);
}

#if XC_MAJOR_VERSION >= 7
static const xc_@FAMILY@_funcs_variants functions = {{@FUNCTIONS@}, {@FUNCTIONS@}};
#endif

#ifndef INSIDE_LIBXC
static
#endif
const xc_func_info_type xc_func_info_@NAME_IN_TREE@ = {
    @NUMBER@, @KIND@, "dftfd_@NAME@", @INFO_FAMILY@, {NULL, NULL, NULL, NULL, NULL},
    @FLAGS@,
    1e-27, @EXTERNAL@, start, NULL, @TABLE@
};

#ifndef INSIDE_LIBXC

typedef int starting(xc_func_type *, int, int);
typedef int numbering(const char *);
typedef char *naming(int);
typedef int sorting(int, int *, int *);

/* The address of the function of this name in libxc, which is loaded after this library; NULL where there is none. */
static void real(const char *name, void *function, size_t size)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (found == NULL) {
        void *library = dlopen("libxc.so", RTLD_NOW | RTLD_GLOBAL);
        found = library == NULL ? NULL : dlsym(library, name);
    }
    memcpy(function, &found, size);
}

/* Whether no library that is loaded after this one answers for the same number: which one would be a matter of chance,
   and the functions of two exports of one name would be mixed. */
static int is_alone(void)
{
    naming *other;
    char *name;
    real("xc_functional_get_name", &other, sizeof other);
    name = other == NULL ? NULL : other(@NUMBER@);
    if (name == NULL) return 1;
    fprintf(stderr, "dftfd_@NAME@: two libraries answer for the number @NUMBER@, the other one as %s. "
        "Neither is used: export one of the functionals under another name.\\n", name);
    free(name);
    return 0;
}

int xc_func_init(xc_func_type *p, int functional, int nspin)
{
    starting *other;
    xc_func_info_type *info;
    if (functional != @NUMBER@) {
        real("xc_func_init", &other, sizeof other);
        return other == NULL ? -1 : other(p, functional, nspin);
    }
    if (!is_alone()) return -1;
    if (nspin != XC_UNPOLARIZED && nspin != XC_POLARIZED) return -2;
    memset(p, 0, sizeof *p);
    info = (xc_func_info_type *)malloc(sizeof *info); /* xc_func_end frees it */
    if (info == NULL) return -1;
    memcpy(info, &xc_func_info_@NAME_IN_TREE@, sizeof *info);
    p->info = info;
    p->nspin = nspin;
    p->dens_threshold = p->info->dens_threshold;
    p->zeta_threshold = 2.220446049250313e-16;
    p->sigma_threshold = 1e-36;
    p->tau_threshold = 1e-20;
@DIMENSIONS@    if (p->info->ext_params.n > 0) {
        STORE(p, (double *)malloc((size_t)p->info->ext_params.n*sizeof(double)));
        if (STORED(p) == NULL) return -1;
        set_parameters(p, NULL);
    }
    start(p);
    return 0;
}

/* Whatever the case, with XC_ before it or without, as libxc takes names. */
static int are_same(const char *name, const char *own)
{
    if (toupper((unsigned char)name[0]) == 'X' && toupper((unsigned char)name[1]) == 'C' && name[2] == '_') name += 3;
    while (*own && tolower((unsigned char)*name) == tolower((unsigned char)*own)) ++own, ++name;
    return *own == 0 && *name == 0;
}

int xc_functional_get_number(const char *name)
{
    numbering *other;
    if (are_same(name, "dftfd_@NAME@") || are_same(name, "@NAME_IN_TREE@")) return is_alone() ? @NUMBER@ : -1;
    real("xc_functional_get_number", &other, sizeof other);
    return other == NULL ? -1 : other(name);
}

char *xc_functional_get_name(int number)
{
    naming *other;
    if (number == @NUMBER@) {
        char *name = (char *)malloc(sizeof "dftfd_@NAME@");
        return name == NULL ? NULL : strcpy(name, "dftfd_@NAME@");
    }
    real("xc_functional_get_name", &other, sizeof other);
    return other == NULL ? NULL : other(number);
}

int xc_family_from_id(int id, int *family, int *number)
{
    sorting *other;
    if (id == @NUMBER@) {
        if (family != NULL) *family = @INFO_FAMILY@;
        if (number != NULL) *number = 0;
        return @INFO_FAMILY@;
    }
    real("xc_family_from_id", &other, sizeof other);
    return other == NULL ? XC_FAMILY_UNKNOWN : other(id, family, number);
}

#endif
"""
