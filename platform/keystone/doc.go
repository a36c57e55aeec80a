// Package keystone is a client of OpenStack's Keystone, version 3 of its API. It validates callers' tokens with a
// token of the controller's own, and logs a person in whose environment has OS_AUTH_URL, including the endpoints of
// the catalog.
//
// Guarantees:
//   - An answer about a token counts until the token expires, but at most for a window; a revoked token is refused
//     after that window at the latest.
//   - Callers that wait for the same token share one request. If Keystone is unreachable, requests pause for a time
//     that doubles. Every request has a time limit.
//   - Tokens and passwords are sent only to the given address: redirects are not followed. No error contains one.
//
// It never decides what a role may do, and knows nothing of the controller's API.
package keystone
