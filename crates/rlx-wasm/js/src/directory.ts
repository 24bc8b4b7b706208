/** Folders that the user chose, or of the page's own file system. */

import { files } from './listing.js';
import type { Listing } from './listing.js';

/** What is in a folder, with the folders inside it. */
export async function folderOfHandle(root: FileSystemDirectoryHandle): Promise<Listing> {
  const found = await files<FileSystemHandle>(root, root.name, async (folder) => {
    const entries: { name: string; isFolder: boolean; at: FileSystemHandle }[] = [];
    const handles = folder as unknown as { values(): AsyncIterable<FileSystemHandle> };
    for await (const at of handles.values()) entries.push({ name: at.name, isFolder: at.kind === 'directory', at });
    return entries;
  });
  return { name: root.name, names: found.names, file: (name) => found.file(name) as FileSystemFileHandle };
}
