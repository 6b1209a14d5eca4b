export const workers = {
  filter: 'Filter by id',
  empty: (ns: string) => `No workers in namespace ${ns}.`,
  missing: 'This worker does not exist: it deregistered, or sent no heartbeat for too long.',
  noProcesses: 'No runs yet.',
  theMetadata: 'metadata',
}
