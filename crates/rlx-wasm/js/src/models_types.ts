/** The public types of the models that are stored in the browser, written by hand like `types.ts`. */

/** Options of a load that say what is kept and checked. */
export interface KeepingOptions {
  /**
   * Whether models that were not used for longest may be removed from the store if there is no room for this one.
   * Default false: then it is loaded and not kept, with the notice `cache_full`.
   */
  makeRoom?: boolean;
  /**
   * SHA-256 of the model's file, or an object of file names and their hashes: each as 64 hexadecimal digits, or as
   * `sha256-` and base64. It is computed while bytes arrive. A file with another hash is `bad_file`, and nothing of it
   * is kept. A kept file is hashed once.
   */
  integrity?: string | { readonly [file: string]: string };
}

/** A model that is stored, or a part of one. */
export interface StoredModel {
  /**
   * Its address: of the file, without the number if it is a shard, or of the folder of a model in several files.
   * `Engine.models.delete` takes it.
   */
  id: string;
  /** Bytes that are stored. */
  bytes: number;
  /** When one of its files was last loaded, to the hour. */
  lastUsed: Date;
  /** Whether all of its files that a load has begun are complete. The next load continues one that is not. */
  complete: boolean;
  files: StoredFile[];
}

export interface StoredFile {
  /** Its address, without a signature. */
  url: string;
  bytes: number;
  /** Its length, if the server has told it. */
  totalBytes?: number;
  complete: boolean;
  /** Its SHA-256, if it was checked, as 64 hexadecimal digits. */
  sha256?: string;
}

/** What models take of the browser's storage. */
export interface StorageUsage {
  /** Bytes of all stored models. */
  bytes: number;
  /** Bytes of the whole origin, and how many it may have, as the browser estimates them. */
  originBytes?: number;
  quotaBytes?: number;
  /** Whether the browser keeps them also when its disk is full; see `persist`. */
  persisted: boolean;
}

/** The models that are stored for this origin. */
export interface Models {
  /** All of them, the last used one first. */
  list(): Promise<StoredModel[]>;
  /** Removes a model; whether there was one. A load that reads it goes on from the server. */
  delete(id: string): Promise<boolean>;
  /** Asks the browser to keep them also when its disk is full; whether it does. It may ask the user. */
  persist(): Promise<boolean>;
  usage(): Promise<StorageUsage>;
}
