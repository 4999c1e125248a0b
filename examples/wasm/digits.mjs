// The digits model for JavaScript: `const scores = await digits(bytes)`, then `scores(image)`.

// Instantiates the module in `bytes`. Returns a function from the 64 pixels of an image, from 0
// (paper) to 1 (ink), to the scores of the ten digits.
export async function digits(bytes) {
  const { instance } = await WebAssembly.instantiate(bytes);
  const { memory, image, scores } = instance.exports;
  return (pixels) => {
    new Float32Array(memory.buffer, image(), 64).set(pixels);
    return new Float32Array(memory.buffer, scores(), 10).slice();
  };
}
