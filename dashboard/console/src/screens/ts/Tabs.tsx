import { go, link } from '../../lib/router'
import { Tabs } from '../../ui/Field'
import { strings } from '../../strings'

const words = strings.words

/** Measurements and queries are two sides of the same screen. */
export function TSTabs({ value }: { value: 'ts' | 'floql' }) {
  return (
    <Tabs
      label={words.parts}
      value={value}
      options={
        [
          ['ts', words.measurements],
          ['floql', 'FloQL'],
        ] as const
      }
      change={v => v !== value && go(link(v))}
    />
  )
}
