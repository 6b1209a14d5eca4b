import { defineConfig } from 'vitest/config'

// One browser, one page at a time: the machine that runs this has two cores. What is tried on all screens belongs to the long form.
export default defineConfig({
  test: {
    fileParallelism: false,
    testTimeout: 30_000,
    hookTimeout: 60_000,
    include: ['**/*.test.ts'],
    exclude: process.env['FLOE_FULL'] === '1' ? [] : ['**/full.test.ts'],
    reporters: ['default'],
  },
})
