"""A table as Markdown."""


def markdown_of(title, head, rows, notes):
    table = [head, ["---"] * len(head), *rows]
    return "\n".join([f"**{title}**", "", *("| " + " | ".join(row) + " |" for row in table)]
                     + (["", *notes] if notes else []))
