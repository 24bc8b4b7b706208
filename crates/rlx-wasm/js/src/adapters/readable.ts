/** Items as a stream, read one by one as the reader asks for them. `cancel` is called when the reader leaves. */
export function readable<T>(items: AsyncIterator<T>, cancel: () => void): ReadableStream<T> {
  return new ReadableStream<T>({
    async pull(out) {
      const { value, done } = await items.next();
      if (done) out.close();
      else out.enqueue(value);
    },
    cancel,
  }, { highWaterMark: 0 });
}
