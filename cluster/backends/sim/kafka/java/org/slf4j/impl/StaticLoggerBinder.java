package org.slf4j.impl;

import org.apache.kafka.raft.SimDriver;
import org.slf4j.ILoggerFactory;
import org.slf4j.Logger;
import org.slf4j.helpers.FormattingTuple;
import org.slf4j.helpers.MarkerIgnoringBase;
import org.slf4j.helpers.MessageFormatter;
import org.slf4j.spi.LoggerFactoryBinder;

/**
 * The binding of SLF4J 1.7, which finds a class of this name: Kafka's log lines become effects of the step that
 * writes them. Identity hashes, which differ from process to process, are left out of a line.
 */
public final class StaticLoggerBinder implements LoggerFactoryBinder {
    public static final String REQUESTED_API_VERSION = "1.6.99";
    private static final StaticLoggerBinder ONE = new StaticLoggerBinder();
    public static StaticLoggerBinder getSingleton() { return ONE; }
    @Override public ILoggerFactory getLoggerFactory() { return Lines::new; }
    @Override public String getLoggerFactoryClassStr() { return "lines"; }

    private static final class Lines extends MarkerIgnoringBase implements Logger {
        private static final long serialVersionUID = 1L;

        Lines(String name) {
            this.name = name.substring(name.lastIndexOf('.') + 1);
        }

        private void put(String level, String format, Object... args) {
            if (!SimDriver.logs()) {
                return;
            }
            FormattingTuple line = MessageFormatter.arrayFormat(format, args);
            String thrown = line.getThrowable() == null ? "" : " | " + line.getThrowable();
            SimDriver.log((level + " " + name + " " + line.getMessage() + thrown).replaceAll("@[0-9a-f]{4,}", "@"));
        }

        @Override public boolean isTraceEnabled() { return false; }
        @Override public void trace(String m) { }
        @Override public void trace(String f, Object a) { }
        @Override public void trace(String f, Object a, Object b) { }
        @Override public void trace(String f, Object... a) { }
        @Override public void trace(String m, Throwable t) { }
        @Override public boolean isDebugEnabled() { return SimDriver.logs(); }
        @Override public void debug(String m) { put("D", m); }
        @Override public void debug(String f, Object a) { put("D", f, a); }
        @Override public void debug(String f, Object a, Object b) { put("D", f, a, b); }
        @Override public void debug(String f, Object... a) { put("D", f, a); }
        @Override public void debug(String m, Throwable t) { put("D", m, t); }
        @Override public boolean isInfoEnabled() { return SimDriver.logs(); }
        @Override public void info(String m) { put("I", m); }
        @Override public void info(String f, Object a) { put("I", f, a); }
        @Override public void info(String f, Object a, Object b) { put("I", f, a, b); }
        @Override public void info(String f, Object... a) { put("I", f, a); }
        @Override public void info(String m, Throwable t) { put("I", m, t); }
        @Override public boolean isWarnEnabled() { return SimDriver.logs(); }
        @Override public void warn(String m) { put("W", m); }
        @Override public void warn(String f, Object a) { put("W", f, a); }
        @Override public void warn(String f, Object a, Object b) { put("W", f, a, b); }
        @Override public void warn(String f, Object... a) { put("W", f, a); }
        @Override public void warn(String m, Throwable t) { put("W", m, t); }
        @Override public boolean isErrorEnabled() { return SimDriver.logs(); }
        @Override public void error(String m) { put("E", m); }
        @Override public void error(String f, Object a) { put("E", f, a); }
        @Override public void error(String f, Object a, Object b) { put("E", f, a, b); }
        @Override public void error(String f, Object... a) { put("E", f, a); }
        @Override public void error(String m, Throwable t) { put("E", m, t); }
    }
}
