export const workers = {
  filter: 'Filter by id',
  empty: (ns: string) => `No worker serves the namespace ${ns}.`,
  missing: 'There is no such worker: it has left, or was not heard of for long.',
  noProcesses: 'It has carried out nothing yet.',
  theMetadata: 'metadata',
}
