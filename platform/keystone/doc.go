// Package keystone speaks to OpenStack's Keystone, version 3 of its API: it validates tokens
// that callers show, by a token of the controller's own, and logs a person in whose
// environment has OS_AUTH_URL, with the endpoints of the catalog.
//
// What it holds to:
//   - What Keystone said of a token counts until the token expires, and no longer than a
//     window; a token that was revoked is refused after that window at the latest.
//   - One token is asked for once at a time, whoever waits for it, and Keystone that is away
//     is asked again after a pause that doubles. Every question has a deadline.
//   - Tokens and passwords go to the address that was given and nowhere else: a redirect is
//     not followed. No error shows one.
//
// It never decides what a role may do, and knows no request of ours.
package keystone
