// Recorded truth of networks, asked of a `Session`: what `rlx verify` compares natively, compared in a page.
//
// A record (io.safetensors) has inputs `in.*`, outputs `out.*`, and in its metadata how far an output may be off. Each
// kind of network has its own way from the one to the other; crates/rlx-native/src/tools/verify has the same ways.

/** Labels of points: what is no point, and the corners of a box. */
const [NONE, TOP_LEFT, BOTTOM_RIGHT] = [-1, 2, 3];
const FINER = ['middle_embeddings', 'fine_embeddings'];

/** A record at an address. */
async function open(path) {
  const bytes = await (await fetch(`${path}io.safetensors`)).arrayBuffer();
  const length = Number(new DataView(bytes).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 8, length)));
  const facts = JSON.parse(header.__metadata__.rlx);
  const names = Object.keys(header).filter((name) => name !== '__metadata__');
  const ARRAYS = { F32: Float32Array, I64: BigInt64Array, I8: Int8Array };
  /** A tensor: its numbers, and its sizes. */
  const tensor = (name) => {
    const { dtype, shape, data_offsets: [from, to] } = header[name];
    const data = new ARRAYS[dtype](bytes.slice(8 + length + from, 8 + length + to));
    return { data: dtype === 'I64' ? Int32Array.from(data, Number) : data, dims: shape };
  };
  /** The same as an input: integers as ids, unless they are `signed`. */
  const input = (name, signed = false) => {
    const { data, dims } = tensor(`in.${name}`);
    return { data: data instanceof Int32Array && !signed ? Uint32Array.from(data) : data, dims };
  };
  return { facts, names, has: (name) => name in header, tensor, input };
}

const sum = (dims) => dims.reduce((n, d) => n * d, 1);
const floats = (list, dims = [list.length]) => ({ data: Float32Array.from(list), dims });
const integers = (list, dims = [list.length]) => ({ data: Int32Array.from(list), dims });
/** Rows of so many numbers as columns. */
const turned = (x, columns) => Float32Array.from({ length: x.length }, (_, i) => x[(i % (x.length / columns)) * columns + Math.floor(i / (x.length / columns))]);

/** Vectors of images: of each size that the record has, under its name. */
async function ofImages(session, record) {
  const made = {};
  for (const name of record.names.filter((name) => name.startsWith('in.pixel_values'))) {
    const tag = name.slice('in.pixel_values'.length);
    const outputs = await session.run('encode', { pixel_values: record.input(name.slice(3)) });
    for (const [output, { data }] of Object.entries(outputs)) made[`out.${output === 'hidden' ? 'last_hidden_state' : output}${tag}`] = data;
  }
  return made;
}

/** Rows of texts; those of padding are zero in the record. Of the two recorded ways to make a vector the folder has one. */
async function ofTexts(session, record) {
  const mask = record.input('attention_mask');
  const inputs = { input_ids: record.input('input_ids'), attention_mask: mask };
  const { hidden } = await session.run('encode', inputs);
  const width = hidden.dims.at(-1);
  return { 'out.last_hidden_state': hidden.data.map((x, i) => (mask.data[Math.floor(i / width)] ? x : 0)) };
}

/** Logits of a sound alone and of two in a batch; frames that reach into padding are zero in the record. */
async function ofSounds(session, record) {
  const ask = async (which) => {
    const samples = record.input(`${which}input_values`);
    const whole = { data: new Uint32Array(samples.data.length).fill(1), dims: samples.dims };
    const mask = which ? record.input(`${which}attention_mask`) : whole;
    return (await session.run('encode', { input_values: samples, attention_mask: mask })).logits;
  };
  const [alone, batch] = [await ask(''), await ask('batch_')];
  const [, frames, vocabulary] = batch.dims;
  const real = record.tensor('out.batch_frames').data;
  const largest = (row) => row.indexOf(Math.max(...row));
  const ids = Array.from({ length: alone.data.length / vocabulary }, (_, i) => largest(alone.data.subarray(i * vocabulary, (i + 1) * vocabulary)));
  return {
    'out.logits': alone.data,
    'out.ids': ids,
    'out.batch_logits': batch.data.map((x, i) => (Math.floor(i / vocabulary) % frames < real[Math.floor(i / vocabulary / frames)] ? x : 0)),
  };
}

/** Masks by points, by boxes, and by both with a mask before. The image is encoded once and stays on the device. */
async function ofPrompts(session, record) {
  const made = {};
  const pixel_values = record.input('pixel_values');
  const embedded = await session.run('image_embed', { pixel_values });
  const closed = FINER[0] in embedded; // SAM 2 ends prompts with a box too, and sees an image in three sizes
  const names = closed ? { image_embeddings: 'image_embeddings.2', middle_embeddings: 'image_embeddings.1', fine_embeddings: 'image_embeddings.0' } : {};
  for (const [name, { data }] of Object.entries(embedded)) made[`out.${names[name] ?? name}`] = data;
  const keep = session.entries.find(({ name }) => name === 'mask').inputs.map(({ name }) => name).filter((name) => !name.startsWith('input_'));
  const seen = await session.run('image_embed', { pixel_values }, { keep });
  const kept = Object.fromEntries(keep.map((name) => [name, seen[name]]));
  const [points, labels, boxes] = ['points', 'labels', 'boxes'].map((what) => record.tensor(`in.input_${what}`));
  const [, prompts, each] = labels.dims;
  for (const [run, shown] of Object.entries({ points: { points: true }, boxes: { boxes: true, single: true }, all: { points: true, boxes: true, mask: true } })) {
    const [places, of] = [[], []];
    for (let p = 0; p < prompts; p += 1) {
      if (shown.points) {
        places.push(...points.data.subarray(p * each * 2, (p + 1) * each * 2));
        of.push(...labels.data.subarray(p * each, (p + 1) * each));
      }
      if (shown.boxes) {
        places.push(...boxes.data.subarray(p * 4, (p + 1) * 4));
        of.push(TOP_LEFT, BOTTOM_RIGHT);
      }
      if (closed || !shown.boxes) {
        places.push(0, 0);
        of.push(NONE);
      }
    }
    const count = of.length / prompts;
    const inputs = { ...kept, input_points: floats(places, [1, prompts, count, 2]), input_labels: integers(of, [1, prompts, count]) };
    if (shown.mask) inputs.input_masks = record.input('input_masks');
    const outputs = await session.run(shown.mask ? 'mask_from_mask' : 'mask', inputs);
    const [masks, scores] = shown.single ? ['single_mask', 'single_score'] : ['pred_masks', 'iou_scores'];
    made[`out.${run}_pred_masks`] = outputs[masks].data;
    made[`out.${run}_iou_scores`] = outputs[scores].data;
    if (outputs.object_score_logits) made[`out.${run}_object_score_logits`] = outputs.object_score_logits.data;
  }
  for (const tensor of Object.values(kept)) tensor.dispose();
  return made;
}

/** Things by words, and by words with boxes: features of images and texts stay on the device. */
async function ofWords(session, record) {
  const made = {};
  const seen = { fine_embeddings: 0, middle_embeddings: 1, image_embeddings: 2 };
  const [pixel_values, input_ids] = [record.input('pixel_values'), record.input('input_ids')];
  const embedded = await session.run('image_embed', { pixel_values });
  for (const [name, level] of Object.entries(seen)) made[`out.fpn_hidden_states.${level}`] = embedded[name].data;
  const images = await session.run('image_embed', { pixel_values }, { keep: Object.keys(seen) });
  const texts = await session.run('text_embed', { input_ids }, { keep: ['text_embeddings'] });
  const inputs = { ...images, ...texts, attention_mask: record.input('attention_mask') };
  const boxes = { input_boxes: record.input('input_boxes'), input_boxes_labels: record.input('input_boxes_labels', true) };
  for (const [run, entry, more] of [['text', 'detect', {}], ['boxes', 'detect_from_boxes', boxes]]) {
    for (const [name, { data }] of Object.entries(await session.run(entry, { ...inputs, ...more }))) made[`out.${run}_${name}`] = data;
  }
  for (const tensor of [...Object.values(images), ...Object.values(texts)]) tensor.dispose?.();
  return made;
}

/** A thing through a film: it is shown on the first picture, and what is remembered of it stays on the device. */
async function ofFilm(session, record) {
  const entry = (name) => session.entries.find((entry) => entry.name === name).inputs;
  const sizes = (of, name) => entry(of).find((input) => input.name === name).shape.map((n) => (typeof n === 'number' ? n : 1));
  const pixels = record.tensor('in.track.frames_x16');
  const [frames, ...frame] = pixels.dims;
  const [points, labels] = [record.tensor('in.track.points').data, record.tensor('in.track.labels').data];
  const shown = { input_points: [...points, 0, 0], input_labels: [...labels, NONE] };
  // Where nothing is shown, two points that are none.
  const none = { input_points: [0, 0, 0, 0], input_labels: [NONE, NONE] };
  const slots = { memories: sizes('condition', 'memories')[0], pointers: sizes('condition', 'pointers')[0] };
  const [masks, scores] = [[], []];
  let bank;
  for (let at = 0; at < frames; at += 1) {
    // So short a film never fills its slots: each picture has one, and the first one's age is its own number.
    const ages = (of) => Array.from({ length: slots[of] }, (_, i) => (i < at ? at - i : 0));
    const pixel_values = { data: Float32Array.from(pixels.data.subarray(at * sum(frame), (at + 1) * sum(frame)), (x) => x / 16), dims: [1, ...frame] };
    const { image_features, ...looked } = await session.run('image_embed', { pixel_values }, { keep: ['image_features', 'image_embeddings', ...FINER] });
    let { image_embeddings } = looked;
    if (bank) {
      const seen = (of) => floats(ages(of).map((age) => Number(age > 0)));
      const span = Math.max(1, Math.min(frames, slots.pointers) - 1);
      const times = ages('memories').map((age, i) => (i > 0 && age > 0 ? age - 1 : slots.memories - 1));
      const inputs = {
        image_features, ...bank, memories_seen: seen('memories'), pointers_seen: seen('pointers'),
        memory_times: { data: Uint32Array.from(times), dims: [slots.memories] },
      };
      if (entry('condition').some(({ name }) => name === 'pointer_times')) inputs.pointer_times = floats(ages('pointers').map((age) => age / span));
      ({ image_embeddings } = await session.run('condition', inputs, { keep: ['image_embeddings'] }));
    }
    const { input_points, input_labels } = at === 0 ? shown : none;
    const count = input_labels.length;
    const finer = Object.fromEntries(FINER.map((name) => [name, looked[name]]));
    // One mask where two points are shown; several are chosen from where nothing is.
    const prompt = { input_points: floats(input_points, [1, 1, count, 2]), input_labels: integers(input_labels, [1, 1, count]), several: integers([Number(at > 0)]) };
    const found = await session.run('track', { ...prompt, image_embeddings, ...finer }, { keep: ['mask', 'object_score_logits', 'pointer'] });
    masks.push(...await found.mask.data());
    scores.push(...await found.object_score_logits.data());
    const empty = Object.fromEntries(['memories', 'pointers'].map((name) => [name, floats(new Array(sum(sizes('remember', name))).fill(0), sizes('remember', name))]));
    const { mask, object_score_logits, pointer } = found;
    const kept = await session.run('remember', {
      image_features, mask, object_score_logits, pointer, ...(bank ?? empty),
      shown: integers([Number(at === 0)]), memory_slot: integers([at]), pointer_slot: integers([at]),
    }, { keep: ['new_memories', 'new_pointers'] });
    bank = { memories: kept.new_memories, pointers: kept.new_pointers };
  }
  return { 'out.track.pred_masks': masks, 'out.track.object_score_logits': scores };
}

/** A transformer's step, and its way from noise: latents stay on the device. */
async function ofNoise(session, record) {
  const given = (entry) => Object.fromEntries(session.entries.find(({ name }) => name === entry).inputs
    .filter(({ name }) => record.has(`in.${name}`))
    .map(({ name }) => {
      const { data, dims } = record.input(name);
      // Positions are the same for every image of a batch, and recorded with an axis of images.
      return [name, { data, dims: data instanceof Uint32Array && dims.length === 3 ? dims.slice(1) : dims }];
    }));
  const inputs = given('denoise_step');
  const { sample } = await session.run('denoise_step', inputs);
  const { hidden_states, timestep: _, ...step } = inputs;
  const sigmas = record.tensor('out.sigmas').data;
  const { latents: __, sigma: ___, sigma_next: ____, ...shared } = given('denoise');
  const [predictions, ways] = [[], []];
  let latents = hidden_states;
  for (let i = 0; i + 1 < sigmas.length; i += 1) {
    const [sigma, sigma_next] = [floats([sigmas[i]]), floats([sigmas[i + 1]])];
    const predicted = await session.run('denoise_step', { ...step, hidden_states: latents, timestep: sigma });
    predictions.push(...predicted.sample.data);
    const next = (await session.run('denoise', { ...shared, latents, sigma, sigma_next }, { keep: ['latents'] })).latents;
    ways.push(...await next.data());
    latents.dispose?.();
    latents = next;
  }
  latents.dispose();
  const [, rows, channels] = hidden_states.dims;
  return { 'out.sample': sample.data, 'out.denoise_predictions': predictions, 'out.denoise_latents': ways, 'out.latents': turned(ways.slice(-rows * channels), channels) };
}

/** An image of latents, which the network has as rows of channels. */
async function ofLatents(session, record) {
  const { data, dims: [images, channels, height, width] } = record.tensor('in.latents');
  const latents = floats(turned(data, height * width), [images, height, width, channels]);
  return { 'out.image': (await session.run('decode_image', { latents })).image.data };
}

/** The way of a family, by what the record calls it. */
const WAYS = {
  vit: ofImages, dinov2_registers: ofImages, modernbert: ofTexts, wav2vec2: ofSounds, wav2vec2_stable: ofSounds,
  sam: ofPrompts, sam2: ofPrompts, sam3: ofWords, sam2_video: ofFilm, flux2: ofNoise, flux2_vae: ofLatents,
};

/** The largest difference, of the largest recorded number. */
function apart(got, want) {
  if (got.length !== want.length) return Infinity;
  let [most, off] = [0, 0];
  for (let i = 0; i < want.length; i += 1) {
    most = Math.max(most, Math.abs(want[i]));
    const difference = Math.abs(got[i] - want[i]);
    off = difference >= 0 ? Math.max(off, difference) : Infinity; // not a number
  }
  return off === 0 ? 0 : off / most;
}

/**
 * Runs the network of a folder on a device as its record was made. Answers with a row for each output that was compared,
 * the names of recorded outputs that were not, and where it ran.
 */
export async function verified(Session, path, device) {
  const record = await open(path);
  const session = await Session.load({ model: path, device, cache: false });
  try {
    const made = await WAYS[record.facts.family](session, record);
    const { looser = {}, tolerance } = record.facts;
    const outputs = record.names.filter((name) => name.startsWith('out.'));
    const most = (name) => Object.entries(looser).find(([part]) => name.startsWith(part))?.[1] ?? tolerance.relative_to_largest;
    const rows = outputs.filter((name) => name in made).map((name) => ({ name, apart: apart(made[name], record.tensor(name).data), most: most(name) }));
    return { rows, left: outputs.filter((name) => !(name in made)), info: session.info() };
  } finally {
    session.dispose();
  }
}
