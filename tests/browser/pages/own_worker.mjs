// A module worker of an application's, with messages of its own, that runs RLX's engines too.

import '/dist/engine_worker.js';

addEventListener('message', ({ data }) => {
  if (data === 'hello') postMessage('hello to you');
});
