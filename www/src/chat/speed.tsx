/** How fast an answer comes, or came. */

import type { Speed } from '../state/types.js';
import { milliseconds, plural, rate } from '../ui/format.js';

export function SpeedView({ speed: { tokens, firstTokenMs, tokensPerSecond } }: { speed: Speed }) {
  const parts = [
    tokensPerSecond !== null && `${rate(tokensPerSecond)} tokens/s`,
    firstTokenMs !== null && `first after ${milliseconds(firstTokenMs)}`,
    tokens > 0 && plural(tokens, 'token'),
  ];
  return <small class="speed">{parts.filter(Boolean).join(' · ')}</small>;
}
