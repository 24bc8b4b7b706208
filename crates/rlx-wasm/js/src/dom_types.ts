/**
 * What a page has beside other platforms, where the DOM's types are there; else nothing. So declarations compile with
 * the types of Node alone.
 */

type Made<T> = { prototype: T };

export type PageImageBitmap = typeof globalThis extends { ImageBitmap: Made<infer T> } ? T : never;
export type PageImageData = typeof globalThis extends { ImageData: Made<infer T> } ? T : never;
export type PageImage = typeof globalThis extends { HTMLImageElement: Made<infer T> } ? T : never;
export type PageVideo = typeof globalThis extends { HTMLVideoElement: Made<infer T> } ? T : never;
export type PageCanvas = typeof globalThis extends { HTMLCanvasElement: Made<infer T> } ? T : never;
export type PageOffscreenCanvas = typeof globalThis extends { OffscreenCanvas: Made<infer T> } ? T : never;
export type PageVideoFrame = typeof globalThis extends { VideoFrame: Made<infer T> } ? T : never;
export type PageAudioBuffer = typeof globalThis extends { AudioBuffer: Made<infer T> } ? T : never;
export type PageMediaStream = typeof globalThis extends { MediaStream: Made<infer T> } ? T : never;
