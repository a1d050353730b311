"""The measured part of the README: families, use cases, charts; everything else is in docs/evidence/benchmarks.md."""
from report import misses, production
from report.cells import of_group
from report.headline import speed_matrix, tokens_matrix, use_matrix
from report.markdown import markdown_of
from report.provenance import provenance_of_all


def readme(stored, charts):
    """`charts`: [(path from the README, title, command, caption)]."""
    pictures = [f"**{title}**\n\n![{title}]({path})\n\n`{command}`; {caption}."
                for path, title, command, caption in charts]
    missed = [misses.section(stored)] if stored.runs else []
    parts = [production.headline(stored), *_of_runs(stored.runs), *pictures, *missed]
    return "\n\n".join(part for part in parts if part) or "Not measured yet."


def _of_runs(runs):
    real_first = sorted(runs, key=lambda run: run["model"]["synthetic"])
    made = (matrix(real_first) for matrix in (tokens_matrix, use_matrix, speed_matrix))
    tables = [table for table in made if table[2]]
    if not tables:
        return []
    shown = [run for run in runs if any(of_group(run, group) for group in ("tokens", "use", "speed"))]
    marks = ["\\* random weights in the family's real layout."] * any(run["model"]["synthetic"] for run in shown)
    return [*(markdown_of(*table) for table in tables), *marks,
            f"`build/skippy bench compare --model M.gguf --threads 1`; {provenance_of_all(shown)}. Every table with its command "
            "and what it cost: [docs/evidence/benchmarks.md](docs/evidence/benchmarks.md)."]
