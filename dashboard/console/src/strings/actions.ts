import { plural } from '../lib/format'

export const actions = {
  facts: (type: string, version: number, owner: string, timeout: string, retries: number) =>
    `${type} · version ${version}${owner && ` · owned by ${owner}`} · timeout ${timeout} · ${plural(retries, 'retry', 'retries')}`,
  missing: (name: string, ns: string) => `Action ${name} does not exist in namespace ${ns}.`,
  noWorker: 'no worker',
  errorRate: 'Error rate',
  workersTab: (workerCount: string) => `Workers ${workerCount}`,
  noRuns: 'No runs yet.',
  noWorkers: 'No workers.',
  runNotListed: 'This run is not among the most recent ones, or not in this state.',
  doWith: { retry: 'Retry', 'run-now': 'Run now' },
  askWith: { retry: (runId: string) => `Retry ${runId}?`, 'run-now': (runId: string) => `Run ${runId} now?` },
  willWith: {
    retry: 'Run {run} of {name} is queued again with its full number of attempts.',
    'run-now': 'Run {run} of {name} starts as soon as a worker is free and the limits of the action allow it.',
  },
  theError: 'the error',
  errorsHint: 'Failed or timed-out runs, of all ended runs',
  filter: 'Filter by name or owner',
  howToRegister: 'How to register an action',
  empty: (ns: string) => `No actions in namespace ${ns} yet.`,
  register: 'Register an action',
  registerIntro: 'Register an action from the command line, or from the program that runs it. The command:',
  timeoutHint: 'for example 30s',
  invoked: (runId: string, status: string) => `Run ${runId} is ${status}.`,
  invokeTitle: (name: string) => `Invoke ${name}`,
}
