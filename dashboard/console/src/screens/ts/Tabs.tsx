import { go, link } from '../../lib/router'
import { Tabs } from '../../ui/Field'

/** Measurements and queries are two sides of the same screen. */
export function TSTabs({ value }: { value: 'ts' | 'floql' }) {
  return (
    <Tabs
      label="Parts"
      value={value}
      options={
        [
          ['ts', 'Measurements'],
          ['floql', 'FloQL'],
        ] as const
      }
      change={v => v !== value && go(link(v))}
    />
  )
}
