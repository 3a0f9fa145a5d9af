"""Report of a completion: a page that contains all it needs, and loads nothing."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from snapimpute.app.report._charts import plotly_js
from snapimpute.app.report._sections import content
from snapimpute.base.files import write_atomically
from snapimpute.data.observations import Observations
from snapimpute.estimator.evaluation import Evaluation
from snapimpute.estimator.imputer import SnapImputer

__all__ = ["render", "write_report"]

TITLE = "Completion of a table"


def write_report(
    path: str | os.PathLike[str],
    imputer: SnapImputer,
    observations: Observations,
    evaluation: Evaluation,
    *,
    read: Sequence[tuple[str, str]],
    settings: Mapping[str, Any],
    title: str = TITLE,
) -> None:
    """Write the report of a completion: a page that works without any network, the same bytes for the same input.

    The imputer is fitted to the observations. ``read`` is shown as names and texts about the input. ``settings`` hold
    everything needed to repeat the fit: "command" and "python" are shown as code, others are listed.
    """
    page = render(imputer, observations, evaluation, read=read, settings=settings, title=title)
    write_atomically(Path(path), page.encode("utf-8", "replace"))  # names may hold half a surrogate pair


def render(
    imputer: SnapImputer,
    observations: Observations,
    evaluation: Evaluation,
    *,
    read: Sequence[tuple[str, str]],
    settings: Mapping[str, Any],
    title: str = TITLE,
) -> str:
    """Return the page that `write_report` writes; parameters as there.

    Examples
    --------
    >>> from snapimpute.data.datasets import low_rank_alphabet
    >>> from snapimpute.estimator.evaluation import check
    >>> from snapimpute.experts.proximal.expert import Proximal
    >>> known = low_rank_alphabet((30, 20), rank=2, alphabet="1:5", observed=0.6).observations
    >>> imputer = SnapImputer("1:5", method=Proximal(lam=1.0, xi=0.0, center="mean")).fit(known)
    >>> page = render(imputer, known, check(known, imputer), read=[("file", "films.csv")], settings={"seed": 0})
    >>> "films.csv" in page
    True
    """
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
        from markupsafe import Markup
    except ImportError as err:
        raise ImportError('a report needs jinja2: pip install "snapimpute[app]"') from err

    made = content(imputer, observations, evaluation, read, settings)
    env = Environment(
        loader=PackageLoader("snapimpute.app.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    code = files("snapimpute.app.report").joinpath("templates", "report.js").read_text("utf-8")
    scripts = [_as_read(plotly_js()), _as_read(code)]
    return env.get_template("report.html").render(
        title=title,
        figures=made.figures,
        style=Markup(env.get_template("report.css").render()),  # noqa: S704  our own files
        scripts=[Markup(script) for script in scripts],  # noqa: S704
        data=Markup(script_json({"figures": made.figures, "cells": made.cells})),  # noqa: S704  escaped there
        policy=_policy(scripts),
        **made.text,
    )


def script_json(value: Any) -> str:
    r"""Return JSON for a script element: nothing in it can end the element, or begin a comment.

    Examples
    --------
    >>> script_json({"name": "</script><!-- & \u2028"})
    '{"name":"\\u003c/script\\u003e\\u003c!-- \\u0026 \\u2028"}'
    """
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)  # ASCII: U+2028 and U+2029 are escaped
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _as_read(script: str) -> str:
    """Return a script as a browser reads it from a page, which is the text to hash."""
    return script.replace("\r\n", "\n").replace("\r", "\n").replace("</script", "<\\/script")


def _policy(scripts: Sequence[str]) -> str:
    """Forbid the page to load anything, and to run any script but these."""
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
