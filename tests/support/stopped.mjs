// What a browser test says when its page stopped answering: `npm test` runs such a file once more.

export const STOPPED = 'the page stopped answering';
