"""Draws charts with matplotlib: the same bytes for the same data, text as text, readable on a light and a dark page."""
import io
import textwrap

import matplotlib
from charts.data import IDEAL, digest
from labels import BEST, OURS
from matplotlib import ticker
from matplotlib.figure import Figure

STYLE = {"svg.hashsalt": "skippy", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 9,
         "font.sans-serif": ["DejaVu Sans", "Arial", "sans-serif"], "axes.spines.top": False,
         "axes.spines.right": False, "axes.grid": True, "grid.color": "#dddddd", "axes.axisbelow": True,
         "text.parse_math": False}
# Told apart by colour-blind readers too, and in print by their marks.
BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#777777"
LINES = {"llama-server, cold": (ORANGE, "--", "o"), "skippy, cold": (BLUE, "--", "s"),
         "llama-server, warm": (ORANGE, "-", "o"), "skippy, warm": (BLUE, "-", "s"),
         "optimum": (GREY, ":", "^"), "LRU": (BLUE, "-", "s"), "benefit per byte": (ORANGE, "-", "o")}
BARS = {IDEAL: GREY, OURS: BLUE, BEST: ORANGE}
WIDTH = 9.0   # inches


def svg(chart):
    with matplotlib.rc_context(STYLE):
        figure = DRAWN[chart["name"]](chart)
        figure.suptitle(chart["title"], x=0.01, ha="left", fontsize=11, fontweight="bold")
        figure.supxlabel(textwrap.fill(chart["caption"], 150), fontsize=6.5, color="#555555")
        out = io.StringIO()
        # On white, whatever the page is.
        figure.savefig(out, format="svg", facecolor="white", metadata={"Date": None, "Title": chart["title"]})
    text = "\n".join(line.rstrip() for line in out.getvalue().splitlines())
    return text.replace("</svg>", f"<!-- digest {digest(chart)} -->\n</svg>") + "\n"


def _panels(chart, height, columns):
    rows = -(-len(chart["panels"]) // columns)
    columns = min(columns, len(chart["panels"]))
    figure = Figure(figsize=(WIDTH, height * rows + 0.5), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).flatten()
    for spare in axes[len(chart["panels"]):]:
        spare.set_visible(False)
    for ax, panel in zip(axes, chart["panels"]):
        ax.set_title(panel["title"], fontsize=9)
    return figure, axes


def _ttft(chart):
    figure, axes = _panels(chart, 3.6, 2)
    for ax, panel in zip(axes, chart["panels"]):
        for name in [name for name in LINES if name in panel["series"]]:
            x, y, low, high = zip(*panel["series"][name])
            _line(ax, name, x, y)
            ax.fill_between(x, low, high, color=LINES[name][0], alpha=0.12, linewidth=0)
        ax.set(xscale="log", yscale="log", xlabel="prefix length, tokens", ylabel="first token, ms (median; band: all)")
        lengths = sorted({point[0] for points in panel["series"].values() for point in points})
        ax.set_xticks(lengths, [f"{length:,}" for length in lengths])
        ax.xaxis.set_minor_locator(ticker.NullLocator())
        ax.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,g}"))
    axes[0].legend(loc="best", fontsize=8)
    return figure


def _line(ax, name, x, y):
    colour, style, mark = LINES.get(name, (GREY, "-", "x"))
    ax.plot(x, y, style, color=colour, marker=mark, markersize=4, label=name)


def _tokens(chart):
    figure, axes = _panels(chart, 0.42 * max(len(panel["scenarios"]) for panel in chart["panels"]) + 0.8, 1)
    for ax, panel in zip(axes, chart["panels"]):
        places = range(len(panel["scenarios"]))
        for i, (name, colour) in enumerate(BARS.items()):
            ax.barh([place + 0.27 * (i - 1) for place in places], panel["series"][name], 0.25, color=colour, label=name)
        ax.set_yticks(list(places), [textwrap.fill(title, 44) for title in panel["scenarios"]], fontsize=8)
        ax.invert_yaxis()
        ax.grid(False, axis="y")
        ax.set_xlabel("prompt tokens evaluated (less is better)")
        ax.xaxis.set_major_formatter(ticker.StrMethodFormatter("{x:,.0f}"))
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper right", ncols=3, fontsize=8)
    return figure


def _hit_rate(chart):
    figure, axes = _panels(chart, 3.4, 2)
    for ax, panel in zip(axes, chart["panels"]):
        for name, points in panel["series"].items():
            _line(ax, name, *zip(*points))
        ax.set(xscale="log", xlabel="room in the cache, tokens", ylabel="prompt tokens from the cache")
        ax.set_ylim(0, 1)
        ax.yaxis.set_major_formatter(ticker.PercentFormatter(1.0, decimals=0))
        ax.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes[0].legend(loc="lower right", fontsize=8)
    return figure


DRAWN = {"ttft": _ttft, "tokens": _tokens, "hit_rate": _hit_rate}
