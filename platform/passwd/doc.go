// Package passwd owns the file of users and passwords behind Basic authentication: its
// reading, a line `user:hash:role` each with a hash of bcrypt as `htpasswd -B` makes it, its
// being read anew when it changes, and the check of a password at a bounded cost.
//
// What it holds to:
//   - A file that everybody may read is refused. One with faults leaves in force what was
//     read before; at the start it ends the start.
//   - A user who is not there costs the time of the dearest hash that is.
//   - A password that was right is known again by an HMAC with a key of this process, which is
//     cheap; everything else is computed by no more goroutines than may run at once.
//
// It never knows what a role may do, and does not count guesses: its caller does.
package passwd
