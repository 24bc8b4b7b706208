/** Cutting things out of photos: nothing of them leaves the page. */

import { useEffect } from 'preact/hooks';
import { say } from '../state/news.js';
import { ViewFrame } from '../ui/view_frame.js';
import { ModelPart } from './model_part.js';
import { PhotoPart } from './photo_part.js';
import { Picture } from './picture.js';
import { open, photo } from './state.js';
import { Told, Tools } from './tools.js';
import '../styles/needs.css';
import '../styles/cut.css';

export default function CutView() {
  useEffect(takeFiles, []);
  return (
    <ViewFrame name="cut" heading="Cut things out">
      <p class="hint">
        Click on a thing in a photo, and a model finds its edge on this device. Nothing of your photos leaves this page.
      </p>
      <div class="needs">
        <ModelPart />
        <PhotoPart />
      </div>
      {photo.value && (
        <>
          <Told />
          <Picture />
          <Tools />
        </>
      )}
    </ViewFrame>
  );
}

/** A photo that is dropped or pasted here is cut; elsewhere on the page what is dropped is a model. */
function takeFiles(): () => void {
  const take = (event: DragEvent | ClipboardEvent) => {
    const data = 'clipboardData' in event ? event.clipboardData : event.dataTransfer;
    if (!data?.types.includes('Files')) return;
    event.preventDefault();
    event.stopPropagation();
    if (event.type === 'dragover') return;
    const file = [...data.files].find(({ type }) => type.startsWith('image/'));
    if (file) void open(file, file.name);
    else say('That is no photo: choose a PNG, a JPEG or a WebP.');
  };
  const events = ['dragover', 'drop', 'paste'] as const;
  for (const event of events) document.addEventListener(event, take);
  return () => {
    for (const event of events) document.removeEventListener(event, take);
  };
}
