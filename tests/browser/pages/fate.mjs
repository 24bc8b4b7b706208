// A worker's fate is in its address, or is sent to it on a channel, on which it says that it is known.

import { fates } from '/support/fates.mjs';

const control = fates(JSON.parse(new URL(location).searchParams.get('fate')));
const channel = new BroadcastChannel('fate');
channel.onmessage = ({ data }) => {
  channel.postMessage('known');
  control.set(data);
};
