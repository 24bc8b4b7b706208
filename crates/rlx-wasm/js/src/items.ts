/** What callers name as a model: addresses, paths, files, streams, directories, names of the Hub. */

import { addressOf, isOnDisk } from './address.js';
import type { Bringing } from './bring.js';
import { folderOf } from './folder.js';
import type { Folder } from './folder.js';
import { lazy } from './lazy.js';
import { isAddress, isDirectory, isHubName } from './options.js';
import type { FileItem, ModelItem } from './options.js';
import { shardsOf } from './shard_names.js';

/** The files that these items are. */
export async function filesOf(items: readonly ModelItem[], open: Bringing['open']): Promise<FileItem[] | Folder> {
  const [first] = items;
  if (items.length !== 1 || !(isAddress(first) || isDirectory(first))) return list(items as FileItem[]);
  if (isHubName(first)) return (await lazy.hub()).hubModel(String(first), open);
  if (isDirectory(first)) {
    const [{ folderOfHandle }, { modelOf }] = await Promise.all([lazy.directory(), lazy.listing()]);
    return modelOf(await folderOfHandle(first));
  }
  const url = addressOf(first);
  if (isOnDisk(url) && lazy.disk) {
    const listing = await (await lazy.disk()).folderOnDisk(url);
    if (listing) return (await lazy.listing()).modelOf(listing);
  }
  const shards = shardsOf(url.pathname);
  return list(shards.length < 2 ? [first] : shards.map((path) => Object.assign(new URL(url), { pathname: path })));
}

const list = (items: FileItem[]): FileItem[] | Folder => folderOf(items) ?? items;
