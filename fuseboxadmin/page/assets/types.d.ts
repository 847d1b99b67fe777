// What openapi.json says, as far as the page reads it. For the checker only:
// this file is not served.

export type State = "closed" | "half-open" | "open";
export type Mode = "enforce" | "shadow" | "off" | "force-open" | "force-closed";
export type Cause =
  | "failure-rate" | "slow-rate" | "consecutive" | "trip-when"
  | "probe-failed" | "probe-expired" | "probes-succeeded" | "deadline"
  | "override" | "override-ended" | "lift" | "reset" | "reconfigured";

export interface Counts { calls: number; failures: number; slow: number; consecutive: number }
export interface Note { reason?: string; by?: string; until?: string }

export interface Transition {
  name: string;
  from: State;
  to: State;
  cause: Cause;
  mode: Mode;
  at: string;
  generation: number;
  counts: Counts;
  threshold?: number;
  window?: string;
  last_error?: string;
  note?: Note;
  until?: string;
  why: string;
}

export interface Totals {
  successes: number;
  failures: number;
  ignored: number;
  late: number;
  slow: number;
  rejected_open: number;
  rejected_probing: number;
  would_reject: { successes: number; failures: number; ignored: number };
  open: string;
  fallbacks?: number; // absent where the program does not know
}

export interface Bucket { calls: number; failures: number; slow: number }

export interface Probe {
  at: string;
  duration: string;
  result: "out" | "succeeded" | "failed" | "ignored" | "expired";
  slow?: boolean;
}

export interface Rule {
  cause: Cause;
  value: number;
  threshold: number;
  min_calls: number;
  enough: boolean;
  calls_to_trip?: number;
}

export interface Breaker {
  name: string;
  path: string;
  state: State;
  mode: Mode;
  override?: boolean;
  note?: Note;
  generation: number;
  counts: Counts;
  failure_rate: number;
  slow_rate: number;
  outstanding: number;
  until?: string;
  open_period?: string;
  since: string;
  last?: Transition;
  totals: Totals;
  judged: boolean;
  rules: Rule[];
}

export interface Detail extends Breaker {
  now: string;
  config: Record<string, any>;
  defaults?: string[]; // those of config that are
  history: Transition[];
  window: Bucket[];
  trip?: Transition;
  trip_window: Bucket[];
  passed: number;
  failed: number;
  probes: Probe[];
  period_number: number;
  next_period: string;
}

export interface Event { id: number; at: string; event: string; data: any }

export interface Sample {
  from: string;
  at: string;
  calls: number;
  failures: number;
  slow: number;
  rejected: number;
  would_reject_good: number;
  would_reject_bad: number;
  fallbacks: number;
}

export interface AuditRecord {
  at: string;
  action: string;
  name: string;
  mode?: string;
  reason?: string;
  by?: string;
  ttl?: string;
  remote: string;
  status: number;
  error?: string;
  first?: string; // of attempts that were refused alike: when the first was
  times?: number; // and how many they are
}

/** Something that is marked on the time axis; without a name it concerns all. */
export interface Mark { at: number; text: string; name: string }

/** How often something happened in a span of time, a second. */
export interface Point { from: number; to: number; value: number }

export interface ConfigEntry { path: string; value: string; origin: string }

export interface APIError { status: number; error: string; field?: string }

/** The answer to a write: what was asked for, and what came of it. */
export interface Change { action: string; mode?: Mode; reason: string; by: string; ttl?: string }

export type Status = "connecting" | "live" | "lost";

/** What the stream tells. */
export type News =
  | { type: "event"; id: number; kind: string; data: any }
  | { type: "beat" } // the server has said something
  | { type: "pulse" } // the worker that the tabs share is there
  | { type: "status"; status: Status; why?: string }; // why: the server has refused
