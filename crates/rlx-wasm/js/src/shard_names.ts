/** How the files of a model in several shards are called. */

const SHARD = /-(\d{5})-of-(\d{5})(\.gguf)$/i;

/** The names of all shards, if a name or a path is one shard's; else the name. */
export function shardsOf(name: string): string[] {
  const [, , count, end] = SHARD.exec(name) ?? [];
  if (count === undefined) return [name];
  return Array.from({ length: Number(count) }, (_, i) => name.replace(SHARD, `-${String(i + 1).padStart(5, '0')}-of-${count}${end}`));
}

/** The name without the shard's number and the ending. */
export const stemOf = (name: string): string => name.replace(SHARD, '$3').replace(/\.gguf$/i, '');
