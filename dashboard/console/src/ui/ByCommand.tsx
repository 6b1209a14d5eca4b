import { Snippet } from './Snippet'

/** What only the command line does, as its commands. */
export function ByCommand({ what, commands }: { what: string; commands: readonly string[] }) {
  return (
    <details class="by-command" data-test="by-command">
      <summary class="dim">{what}</summary>
      {commands.map(c => (
        <Snippet key={c} command={c} />
      ))}
    </details>
  )
}
