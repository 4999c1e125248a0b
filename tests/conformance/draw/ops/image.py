"""Image files."""

import io

import numpy as np

from ..registry import operator
from ..types import U8

# The lossless formats.
FORMATS = ("PNG", "BMP", "TIFF", "PPM")


@operator("ImageDecoder")
def image_decoder(d):
    from PIL import Image

    pixels = d.integers(U8, [d.int(1, 6), d.int(1, 6), 3], 0, 255)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format=d.one_of(FORMATS))
    data = np.frombuffer(file.getvalue(), U8)
    form = d.one_of([None, "RGB", "BGR", "Grayscale"])

    def reference(data):
        if form == "Grayscale":
            return np.asarray(Image.fromarray(pixels).convert("L"))[..., None]
        return pixels[..., ::-1] if form == "BGR" else pixels

    return d.case(
        [data], reference, attributes=d.attributes(pixel_format=form), dynamic=True, symbolic=False
    )
