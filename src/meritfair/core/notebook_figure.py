"""The figure that everything is drawn on: made without pyplot, which would keep all of them, and shown by notebooks."""

from __future__ import annotations

import io

import matplotlib.figure


class Figure(matplotlib.figure.Figure):
    """A figure of Matplotlib that IPython shows as an image."""

    def _repr_png_(self) -> bytes:
        image = io.BytesIO()
        self.savefig(image, format="png", dpi="figure")
        return image.getvalue()
