"""What `dftfd prove` and the report card say of proofs."""

from dataclasses import replace
from typing import Any

from dftfd.errors import InputError, UnsupportedError, shown
from dftfd.functionals.registry import get_functional
from dftfd.runtime.written_numbers import as_real
from dftfd.verify.local_conditions import CONDITIONS, part_of
from dftfd.verify.proofs import prove
from dftfd.verify.report_card import ReportCard


def parsed_domain(texts) -> dict[str, tuple[float, float]]:
    """{variable: (from, to)} of texts VARIABLE=FROM:TO, or VARIABLE=NUMBER."""
    domain = {}
    for text in texts or ():
        name, _, ends = text.partition("=")
        try:
            low, _, high = ends.partition(":")
            domain[name.strip()] = (as_real(low.strip()), as_real((high or low).strip()))
        except ValueError as error:
            raise InputError(f"domain {text!r}: VARIABLE=FROM:TO expected, as zeta=0:1.") from error
    return domain


def prove_and_report(name, conditions, domain, boxes, recheck, save, plot, say, at_work) -> bool:
    """`dftfd prove`: says what is found, condition by condition; True if all is proved.

    at_work: (text) -> context around what takes long.
    """
    ends, wanted = parsed_domain(domain), conditions or decidable(name)
    if not wanted:
        try:
            part_of(get_functional(name), "x")
        except UnsupportedError as error:
            raise UnsupportedError(f"no local condition is about {shown(name)}: {error}.") from error
    if (save or plot) and len(wanted) > 1:
        raise InputError(f"a certificate or picture holds one condition, {len(wanted)} asked for: give --condition.")
    fine = True
    for condition in wanted:
        with at_work(f"{condition}: looking at up to {boxes} boxes"):
            proof = prove(name, condition, ends, boxes=boxes)
        say(f"{proof}\n" if recheck is None or not proof.proved else str(proof))
        if recheck is not None and proof.proved:
            with at_work(f"{condition}: rechecking in ball arithmetic"):
                found = proof.recheck(recheck)
            held = "{} of {} boxes".format(*found)
            say(f"rechecked in Arb's ball arithmetic: {held}, {found.directly} from the formula alone\n")
        fine &= proof.proved
        if save:
            proof.save(save)
        if plot:
            proof.plot(plot)
    return fine


def with_proofs(card: ReportCard, boxes: int = 200_000) -> ReportCard:
    """A report card with the local conditions decided on the default domain."""
    names = decidable(card.functional)
    return replace(card, proofs=tuple(prove(card.functional, name, boxes=boxes).line for name in names))


def decidable(functional: Any) -> list[str]:
    """Names of the conditions that are about a functional."""
    f, found = get_functional(functional), []
    for name, known in CONDITIONS.items():
        try:
            for part in known.parts:
                part_of(f, part[0])
        except UnsupportedError:
            continue
        found.append(name)
    return found
