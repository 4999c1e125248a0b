// The digits model for JavaScript: `const scores = await digits(bytes)`, then `scores(image)`.

// A function from 64 numbers, the pixels of an image from 0 (paper) to 1 (ink), to the scores of
// the ten digits. `bytes` are those of the module.
export async function digits(bytes) {
  const { instance } = await WebAssembly.instantiate(bytes);
  const { memory, image, scores } = instance.exports;
  return (pixels) => {
    new Float32Array(memory.buffer, image(), 64).set(pixels);
    return new Float32Array(memory.buffer, scores(), 10).slice();
  };
}
