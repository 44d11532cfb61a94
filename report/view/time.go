package view

import "time"

// Time is a time as all reports show it: in UTC, as the dates of the archive, of flags and of SQL are.
func Time(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// Clock is a time of a day. Its Z says that it is UTC.
func Clock(ms int64) string { return Time(ms).Format("15:04:05Z") }
