import { Snippet } from './Snippet'

/** What only the command line does, as its commands. */
export function ByCommand({ what, commands, open }: { what: string; commands: readonly string[]; open?: boolean }) {
  return (
    <details class="by-command" open={open} data-test="by-command">
      <summary class="dim">{what}</summary>
      {commands.map(c => (
        <Snippet key={c} command={c} />
      ))}
    </details>
  )
}
