/** The thing as an image of its own. */

/** A PNG as large as the photo, transparent where the thing is not. */
export async function cutOut(photo: ImageBitmap, mask: ImageBitmap): Promise<Blob> {
  const canvas = new OffscreenCanvas(photo.width, photo.height);
  const context = canvas.getContext('2d')!;
  context.drawImage(photo, 0, 0);
  context.globalCompositeOperation = 'destination-in';
  context.drawImage(mask, 0, 0);
  return canvas.convertToBlob({ type: 'image/png' });
}

/** The name of the file that is saved. */
export const nameOf = (photo: string): string => `${photo.replace(/\.[^.]{1,5}$/, '') || 'photo'}, cut out.png`;
