# The table in Markdown.


def microseconds(value):
    return f"{value / 1e3:.3g} ms" if value >= 1e4 else f"{value:.1f} us" if value >= 10 else f"{value:.2f} us"


class Table:
    """Footnotes are shared by cells that say the same."""

    PEERS = ("eager", "Triton", "torch.compile")
    SHOWN = ("eager", "torch.compile", "Triton")

    def __init__(self, rows):
        self.notes = []
        self.rows = [{"kernel": row["kernel"], "shape": row["shape"], "sectile": row.get("median_us"),
                      "sectile_error": row.get("error", ""), "peers": {}, "errors": {}, "remarks": {}} for row in rows]  # fmt: skip

    def note(self, text):
        text = " ".join(text.split())[:200] or "failed without a word"
        if text not in self.notes:
            self.notes.append(text)
        return f"[{self.notes.index(text) + 1}]"

    def cell(self, row, peer):
        time, error = row["peers"].get(peer), row["errors"].get(peer)
        if not time:
            return f"- {self.note(error)}" if error else "-"
        return " ".join([microseconds(time), *map(self.note, row["remarks"].get(peer, []))])

    def text(self):
        lines = ["| Kernel | Shape | Sectile | eager | torch.compile | Triton | best peer / Sectile |", "| --- " * 7 + "|"]
        for row in self.rows:
            ours, best = row["sectile"], min(row["peers"].values(), default=None)
            mine = microseconds(ours) if ours else f"- {self.note(row['sectile_error'])}"
            ratio = f"{best / ours:.2f}" if ours and best else "-"
            cells = [row["kernel"], row["shape"], mine, *(self.cell(row, peer) for peer in self.SHOWN), ratio]
            lines.append("| " + " | ".join(cells) + " |")
        lines += ["", "A ratio above 1: Sectile takes less time than the best of the others.", ""]
        lines += [f"{i + 1}. {note}" for i, note in enumerate(self.notes)]
        return "\n".join(lines)
