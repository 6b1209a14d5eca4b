import type { ComponentChildren } from 'preact'

/** A sentence of strings.ts, with elements in the places of its {names}. */
export function Sentence({ of, put }: { of: string; put: Record<string, ComponentChildren> }) {
  return <>{of.split(/\{(\w+)\}/).map((part, i) => (i % 2 === 0 ? part : put[part]))}</>
}
