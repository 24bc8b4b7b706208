/** Which photo: chosen, dropped or pasted. */

import { FilesButton } from '../ui/files_button.js';
import { open, opening, photo, photoFailure } from './state.js';

export function PhotoPart() {
  const failure = photoFailure.value;
  const { name, bitmap } = photo.value ?? {};
  return (
    <section class="need" aria-labelledby="cut-photo">
      <h2 id="cut-photo">Photo</h2>
      <p id="cut-chosen" role="status">
        {opening.value && 'Reading the photo'}
        {!opening.value && !bitmap && 'A PNG, a JPEG or a WebP. Or drop one here, or paste it.'}
        {!opening.value && bitmap && (
          <>
            <bdi>{name}</bdi>, {bitmap.width} by {bitmap.height} pixels
          </>
        )}
      </p>
      <div class="row">
        <FilesButton
          label={bitmap ? 'Choose another' : 'Choose a photo'}
          id="cut-file"
          accept="image/*"
          onFiles={([file]) => file && void open(file, file.name)}
        />
      </div>
      {failure && (
        <p id="cut-photo-error" class="fault" role="alert">
          <strong>{failure.what}</strong> {failure.hint}
        </p>
      )}
    </section>
  );
}
