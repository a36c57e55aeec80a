// Package passwd reads the password file behind Basic authentication and checks passwords. Each line is
// `user:hash:role` with a bcrypt hash, as `htpasswd -B` creates it. The package rereads a changed file and bounds the
// cost of checks.
//
// Guarantees:
//   - A file that everybody may read is refused. After a change with faults, the previous content remains valid; at
//     the start, faults are an error.
//   - An unknown user costs as much time as the most expensive hash in the file.
//   - A correct password is recognized later by an HMAC with a key of this process, which is cheap. The number of
//     concurrent hash computations is bounded.
//
// It never knows what a role may do, and does not count failed logins: its caller does.
package passwd
