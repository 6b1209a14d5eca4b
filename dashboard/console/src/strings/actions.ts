import { plural } from '../lib/format'

export const actions = {
  facts: (type: string, version: number, owner: string, timeout: string, retries: number) =>
    `${type} · version ${version}${owner && ` · owned by ${owner}`} · timeout ${timeout} · ${plural(retries, 'retry', 'retries')}`,
  missing: (name: string, ns: string) => `There is no action ${name} in the namespace ${ns}.`,
  noWorker: 'no worker',
  errorRate: 'Error rate',
  workersTab: (workerCount: string) => `Workers ${workerCount}`,
  noRuns: 'It was not invoked yet.',
  noWorkers: 'Nobody carries it out.',
  runNotListed: 'This run is not among the last ones, or not in this state.',
  doWith: { retry: 'Retry', 'run-now': 'Run now' },
  askWith: { retry: (runId: string) => `Retry ${runId}?`, 'run-now': (runId: string) => `Run ${runId} now?` },
  willWith: {
    retry: 'The run {run} of {name} is carried out again, with as many attempts as it was invoked with.',
    'run-now': 'The run {run} of {name} begins as soon as a worker is free and no limit of the action holds it back.',
  },
  theError: 'the error',
  errorsHint: 'Failed and timed out, of those that have ended',
  filter: 'Filter by name or owner',
  howToRegister: 'How to register one',
  empty: (ns: string) => `The namespace ${ns} has no actions yet.`,
  register: 'Register an action',
  registerIntro: 'Actions are registered on the command line, or by the program that carries them out. This is the command:',
  timeoutHint: 'such as 30s',
  invoked: (runId: string, status: string) => `Run ${runId} is ${status}.`,
  invokeTitle: (name: string) => `Invoke ${name}`,
}
