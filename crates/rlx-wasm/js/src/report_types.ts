/** The report of a device, as `rlx devices --tune --report` writes it too. `docs/guides/devices.md` says what each member means. */
export interface DeviceReport {
  format: 'rlx-device-report';
  version: 1;
  /** The version of RLX, and the number of its kernels. */
  rlx: string;
  kernels: number;
  /** The day, of UTC: `2026-11-26`. */
  date: string;
  from: 'page' | 'terminal';
  /** What the browser calls itself; in a terminal the operating system and the processor's architecture. */
  system: string;
  adapter: string;
  /** Empty in a page, which is not told. */
  driver: string;
  /** Whether the processor simulates the device: its times say nothing of a GPU. */
  software: boolean;
  features: string[];
  /** Features that compute wrong values, each with the reason. */
  demoted: string[];
  /** Lanes of a subgroup that kernels count on, and how they are known. */
  subgroups: string | null;
  /** The executor's target, with the device's limits. */
  target: string;
  /** Bytes a second of a copy, reads and writes counted. */
  copy_bytes_per_second: number;
  tuning: string;
  /** The times behind it: choice, what was tried, milliseconds of a submission. */
  choices: { [choice: string]: { [tried: string]: number } };
  /** Empty where the device is simulated. */
  forms: FormsReport[];
}

/** The forms of products on layers of one model; null where nothing was timed, and `failed` says why. */
export interface FormsReport {
  model: string;
  recommended: string | null;
  /** The types that the times choose. */
  chosen: string | null;
  /** Milliseconds of a step with the recommended type, and with f32. */
  decode_ms: [number, number] | null;
  /** Of a prompt of 128 tokens. */
  prompt_ms: [number, number] | null;
  failed: string | null;
}
