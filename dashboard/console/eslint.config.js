// What the compiler does not find: hooks out of order, controls without names, and what the policy of the console forbids.
import a11y from 'eslint-plugin-jsx-a11y'
import hooks from 'eslint-plugin-react-hooks'
import ts from 'typescript-eslint'

const forbidden = [
  { selector: "JSXAttribute[name.name='dangerouslySetInnerHTML']", message: 'Text is text: the page builds no HTML of strings.' },
  { selector: 'MemberExpression[property.name=/^(innerHTML|outerHTML|insertAdjacentHTML)$/]', message: 'Text is text: the page builds no HTML of strings.' },
  { selector: "JSXAttribute[name.name='style'] > Literal", message: 'The policy forbids style attributes: use a class, or an object for geometry.' },
  { selector: "CallExpression[callee.property.name='setAttribute'][arguments.0.value='style']", message: 'The policy forbids style attributes.' },
  { selector: "NewExpression[callee.name='Function']", message: 'The policy forbids code made of strings.' },
]
const parsing = {
  selector: "CallExpression[callee.object.name='JSON'][callee.property.name='parse']",
  message: "JSON.parse rounds numbers, reorders keys and drops repeated ones: of somebody else's JSON use parseRaw.",
}

export default ts.config(
  { ignores: ['dist', 'node_modules', 'shots', 'src/api/types.gen.ts'] },
  {
    files: ['src/**/*.{ts,tsx}'],
    extends: [ts.configs.recommended],
    plugins: { 'jsx-a11y': a11y, 'react-hooks': hooks },
    rules: {
      ...a11y.flatConfigs.recommended.rules,
      'react-hooks/rules-of-hooks': 'error',
      eqeqeq: 'error',
      'no-console': 'error',
      'no-eval': 'error',
      'no-implied-eval': 'error',
      'no-restricted-globals': ['error', { name: 'event', message: 'Take the event as an argument.' }],
      'no-restricted-syntax': ['error', ...forbidden, parsing],
      '@typescript-eslint/no-non-null-assertion': 'off', // with noUncheckedIndexedAccess an index that is known to be there needs one
      '@typescript-eslint/no-unused-expressions': ['error', { allowShortCircuit: true, allowTernary: true }],
      // Regions that scroll are focused, so that keys can scroll them (axe: scrollable-region-focusable); roles of grids are ours.
      'jsx-a11y/no-noninteractive-tabindex': 'off',
      // In grids, lists of options and tabs the keys are those of the whole (aria-activedescendant).
      'jsx-a11y/click-events-have-key-events': 'off',
      'jsx-a11y/interactive-supports-focus': 'off',
      'jsx-a11y/no-noninteractive-element-interactions': 'off',
      'jsx-a11y/no-autofocus': 'off', // a dialog focuses its first field
    },
  },
  {
    // Where what is parsed is the node's own answer, or a text of this page.
    files: ['src/api/client.ts', 'src/lib/json.ts', 'src/lib/mount.ts', 'src/screens/floql/Floql.tsx', 'src/screens/actions/Invoke.tsx'],
    rules: { 'no-restricted-syntax': ['error', ...forbidden] },
  },
)
